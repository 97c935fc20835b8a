"""Recent subscriptions of a live index: a few tag sets that every event is compared with, one by one.

They have ids of their own. A set costs one test of a 64-bit signature, as in `kernels.subset`.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.encoder import Column, encode_one, new_room
from matchyard.kernels.growing import copied, put, with_room
from matchyard.kernels.prepared import Prepared, bytes_array, opened
from matchyard.kernels.strings import BLOCK, Interner, Names, find_block, freeze, take_names
from matchyard.kernels.subset import has_all, id_bits, remember, scratch_for


class Checks(NamedTuple):
    """The sets, for kernels."""

    names: Names
    set_start: NDArray[np.int64]  # [n_rows + 1]
    ids: NDArray[np.int32]
    signatures: NDArray[np.uint64]  # [n_rows] see `subset.id_bits`


class Log:
    """Recent sets, in the order of their addition."""

    def __init__(self, options: Any) -> None:
        self._interner = Interner()
        self._set_start, self._ids = array("q", [0]), array("i")
        self._last: Prepared | None = None

    def append(self, tags: frozenset[str]) -> None:
        """Add a set."""
        ids = self._interner.add([tag.encode() for tag in tags])
        self._ids.frombytes(ids.tobytes())
        self._set_start.append(len(self._ids))

    def column(self) -> Column:
        """All sets so far, as the encoder's column."""
        names = self._interner.names()
        text_start, text = take_names(names, np.array(self._ids, np.int32))
        row_start = np.array(self._set_start, np.int64)
        return Column(row_start, text_start, text, np.zeros((len(row_start) - 1, 0), np.uint64))

    def checks(self) -> Prepared:
        """All sets so far, in arrays that do not change."""
        set_start, ids = copied(self._set_start), copied(self._ids)
        checks = freeze(
            Checks(self._interner.copied(), set_start, ids, _signatures(set_start, ids))
        )
        self._last = Prepared(checks, self._last)
        return self._last


class Scratch(NamedTuple):
    """Arrays that the search of one event changes."""

    rows: NDArray[np.int32]
    members: NDArray[np.int32]
    distinct: NDArray[np.int32]


class Finder:
    """Finds the recent sets that one event contains, for one thread."""

    def __init__(self, options: Any) -> None:
        room = new_room()
        n_tags = len(room.tags)
        self._arrays = room, np.empty(4 * n_tags, np.int32), np.empty(n_tags, np.int32)
        self._prepare(64)

    def _prepare(self, n_rows: int) -> None:
        self.rows = np.empty(n_rows, np.int32)
        room, members, distinct = self._arrays
        self._scratch = Prepared((room, Scratch(self.rows, members, distinct)))

    def find(self, data: bytes, checks: Prepared) -> int:
        """Write the rows that the event contains to `rows`; returns how many there are."""
        n_rows = len(checks.arrays[2])
        if n_rows > len(self.rows):
            self._prepare(2 * n_rows)
        return int(_find(checks, self._scratch, data))


def match(column: Column, checks: Prepared, options: Any) -> tuple[Any, Any]:
    """The rows that each event contains: (hit_start, rows)."""
    return _match(checks.arrays, column.row_start, column.text_start, column.text)


@njit(cache=True)
def _signatures(set_start, ids):
    signatures = np.zeros(len(set_start) - 1, np.uint64)
    for row in range(len(signatures)):
        for i in range(set_start[row], set_start[row + 1]):
            signatures[row] |= id_bits(ids[i])
    return signatures


@njit(nogil=True, cache=True)
def _contained(checks, tags, n_tags, members, distinct, rows, n_rows):
    """Append the rows that a set of ids contains; `rows` has room for all. Returns how many there are."""
    mask, n_ids = remember(tags, 0, n_tags, members, distinct)
    missing = ~np.uint64(0)
    for i in range(n_ids):
        missing &= ~id_bits(distinct[i])
    signatures, set_start, ids = checks.signatures, checks.set_start, checks.ids
    for row in range(len(signatures)):
        if signatures[row] & missing == np.uint64(0):
            rows[n_rows] = row
            n_rows += has_all(ids, set_start[row], set_start[row + 1], members, mask)
    return n_rows


@njit(cache=True)
def _find(prepared, scratch, data):
    checks = opened(prepared)
    room, arrays = opened(scratch)
    n_tags = encode_one(checks.names, bytes_array(data), room)
    return _contained(checks, room.tags, n_tags, arrays.members, arrays.distinct, arrays.rows, 0)


@njit(nogil=True, cache=True)
def _match(checks, row_start, text_start, text):
    n_events = len(row_start) - 1
    hit_start, hits = np.zeros(n_events + 1, np.int64), np.empty(256, np.int32)
    members, distinct = scratch_for(row_start)
    tags = np.empty(len(distinct), np.int32)
    codes, ids = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    n_hits = 0
    for event in range(n_events):
        first, last = row_start[event], row_start[event + 1]
        n_tags = 0
        for start in range(first, last, BLOCK):
            n_block = find_block(checks.names, text, text_start[: last + 1], start, codes, ids)
            for i in range(n_block):
                if ids[i] >= 0:
                    tags[n_tags] = ids[i]
                    n_tags += 1
        hits = with_room(hits, n_hits, n_hits + len(checks.signatures))
        n_hits = _contained(checks, tags, n_tags, members, distinct, hits, n_hits)
        hit_start[event + 1] = n_hits
    rows = np.empty(n_hits, np.int32)
    put(rows, 0, hits, 0, n_hits)
    return hit_start, rows
