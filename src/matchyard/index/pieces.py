"""Columns of events in pieces, so that the results of one piece after the other are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from matchyard.errors import EventError, ParseError
from matchyard.matches import Matches


class Piece(NamedTuple):
    """Some consecutive events of a column. The threads that match them read them, too."""

    column: Any
    first: int
    n_rows: int

    def rows(self, start: int, stop: int) -> Any:
        """Events of this piece; errors number them from its first."""
        try:
            return self.column.rows(self.first + start, self.first + stop)
        except EventError as error:
            raise error.counted_from(-self.first) from None


def matched_in_pieces(
    events: Any, size: int, column_of: Callable[[Any], Any], match: Callable[[Any], Matches]
) -> Iterator[Matches]:
    """Match `size` events at a time, of any form or of an iterator. `column_of` makes a column of them, which `match`
    takes. Errors count from the first event of all."""
    if isinstance(events, Iterator):
        yield from _matched(events, size, column_of, match)
        return
    column = column_of(events)
    for first in range(0, column.n_rows, size):
        try:
            matches = match(Piece(column, first, min(size, column.n_rows - first)))
        except EventError as error:
            raise error.counted_from(first) from None
        yield matches


def _matched(
    events: Iterator[Any],
    size: int,
    column_of: Callable[[Any], Any],
    match: Callable[[Any], Matches],
) -> Iterator[Matches]:
    first = 0
    while some := list(islice(events, size)):
        try:
            matches = match(column_of(some))
        except EventError as error:
            raise error.counted_from(first) from None
        except ParseError as error:
            where = f"events counted from {first}: " if first else ""
            raise error.saying(f"{where}{error}") from None
        yield matches
        first += len(some)
