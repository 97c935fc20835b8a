"""Find the events that cannot be read, each with its error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from matchyard.columns import as_arrow
from matchyard.errors import ParseError
from matchyard.matches import Matches, Part, end_to_end

# "event 0 is null", "event 0 has a name twice", "document 0 at line 2, column 1: mismatched tag"
_NUMBERED = re.compile(r"(?:event|document) 0 (?:is |at )?")


def bad_events(
    check: Callable[[Any], None], parse: Callable[[Any], Any], events: Any
) -> dict[int, ParseError]:
    """The numbers of the events that `check` refuses, with the error of each."""
    column = _sliceable(events)
    return {
        row: _unnumbered(parse, _part(column, row, row + 1), error)
        for row, error in refused_by(check, column).items()
    }


def refused_by(check: Callable[[Any], None], column: Any, first: int = 0) -> dict[int, ParseError]:
    """The rows that `check` refuses, with the error of each as if it were alone.

    It halves the column until bad rows are alone, since most rows are good.
    """
    try:
        check(column)
        return {}
    except ParseError as error:
        if len(column) == 1:
            return {first: error}
    half = len(column) // 2
    return {
        **refused_by(check, _part(column, 0, half), first),
        **refused_by(check, _part(column, half, len(column)), first + half),
    }


def _sliceable(events: Any) -> Any:
    """Events of any form as a list or an Arrow column."""
    column = as_arrow(events)
    return column if hasattr(column, "slice") else list(column)


def _part(events: Any, start: int, stop: int) -> Any:
    """Some consecutive events of a list or an Arrow column."""
    return events[start:stop] if isinstance(events, list) else events.slice(start, stop - start)


def without(events: Any, bad: dict[int, ParseError]) -> Any:
    """The good events of a column."""
    column = as_arrow(events)
    if not hasattr(column, "filter"):
        return [event for number, event in enumerate(column) if number not in bad]
    good = np.ones(len(column), bool)
    good[list(bad)] = False
    return column.filter(pa.array(good))


def with_gaps(matches: Matches, bad: dict[int, ParseError]) -> Matches:
    """The matches of good events, with an empty list for each bad event."""
    part = end_to_end(matches.parts)
    counts = np.diff(part.event_start)
    good = np.ones(len(counts) + len(bad), bool)
    good[list(bad)] = False
    spread = np.zeros(len(good) + 1, np.int64)
    spread[1:][good] = counts
    whole = Part(np.cumsum(spread), part.found, part.candidates, part.encode_s)
    return Matches([whole], matches.key_names, bad, matches.threads)


def _unnumbered(parse: Callable[[Any], Any], event: Any, error: ParseError) -> ParseError:
    """The error of an event without its number, which is the event's in a column of one."""
    text = str(error)
    numbered = _NUMBERED.match(text)
    if numbered:
        return error.saying(text[numbered.end() :])
    value = event[0]
    try:
        parse(value.as_py() if isinstance(value, pa.Scalar) else value)
    except ParseError as parse_error:
        return parse_error
    except UnicodeDecodeError:
        pass
    return error.saying(text.removeprefix("row 0 "))
