"""How users have their events: an Arrow column, Python values, or lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

# All but "arrow" are made of what a workload gives, before it is timed.
FORMS = ("arrow", "python", "json")


def given_as(form: str, events: Any, column: str | None) -> Any:
    """Events of a workload in a form; where they are a column, lines of JSON are objects with it.
    What is absent from a row of a table is absent from the object."""
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
    """What an index takes, read from lines of JSON where it does not read them itself."""
    if form == "json" and column is not None:
        return [json.loads(line)[column] for line in events]
    return events
