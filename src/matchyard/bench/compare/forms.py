"""The forms of a user's events: an Arrow column, Python values, or lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

# All but "arrow" are converted from the events of a workload before the clock starts.
FORMS = ("arrow", "python", "json")


def given_as(form: str, events: Any, column: str | None) -> Any:
    """Convert events of a workload to a form. With `column`, lines of JSON are objects with that key.
    Attributes absent from a row of a table are absent from the object."""
    if form == "arrow":
        return events
    values = events.to_pylist()
    if pa.types.is_binary(events.type) and column is None:  # they are lines of JSON
        return values if form == "json" else [json.loads(line) for line in values]
    if form == "json" and values and isinstance(values[0], bytes):
        values = [value.decode() for value in values]
    if pa.types.is_struct(events.type):
        values = [{name: v for name, v in row.items() if v is not None} for row in values]
    if form == "python":
        return values
    return [json.dumps({column: value} if column else value).encode() for value in values]


def taken_from(form: str, events: Any, column: str | None) -> Any:
    """Convert events to the input of an index, which may not read lines of JSON itself."""
    if form == "json" and column is not None:
        return [json.loads(line)[column] for line in events]
    return events
