"""Pairs of an event and a key as lines of JSON: `{"event": 7, "key": 9}`. Python would take a microsecond for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.growing import copy_run

DIGITS = 20  # of a number of 64 bits with its sign, at most
_BLOCK = 32  # bytes that are copied together: a copy may write so many bytes too much
_STEP = 1 << 14  # rows that are written together…
_ROOM = 1 << 24  # …and bytes, unless one row has more
_TENS = np.array([10**n for n in range(20)], np.uint64)
_PAIRS = np.frombuffer("".join(f"{n:02}" for n in range(100)).encode(), np.uint8)


class Values(NamedTuple):
    """A column of integers, or of texts that JSON takes as they are."""

    numbers: NDArray[np.int64]  # [n_rows] the integers, or the number of each row's text
    text_start: NDArray[
        np.int64
    ]  # [n_texts + 1] offsets into text; of one element if there are integers
    text: NDArray[np.uint8]

    @property
    def longest(self) -> int:
        """The most bytes of a value."""
        return DIGITS if len(self.text_start) == 1 else int(np.diff(self.text_start).max())


def integers(numbers: NDArray[np.int64]) -> Values:
    """A column of integers."""
    return Values(numbers, np.zeros(1, np.int64), np.empty(0, np.uint8))


def texts(numbers: NDArray[np.int64], written: list[bytes]) -> Values:
    """A column of texts, each by its number in `written`."""
    start = np.cumsum([0, *map(len, written)])
    return Values(numbers, start, _padded(b"".join(written)))


def _padded(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text + bytes(_BLOCK), np.uint8)


def pair_lines(names: Sequence[str], first: Values, second: Values) -> Iterator[memoryview]:
    """A line for each row of two columns with these names, some lines at a time. The next ones take their memory,
    so that it stays in the cache.

    >>> numbers = integers(np.array([-7, 10]))
    >>> lines = pair_lines(("a", "b"), numbers, texts(np.array([1, 0]), [b'"x"', b'"y"']))
    >>> b"".join(lines)
    b'{"a": -7, "b": "y"}\\n{"a": 10, "b": "x"}\\n'
    """
    one, other = (json.dumps(name, ensure_ascii=False) for name in names)
    before, between = f"{{{one}: ".encode(), f", {other}: ".encode()
    start = np.empty(len(before) + first.longest + len(between) + _BLOCK, np.uint8)
    each = len(start) + second.longest + 2
    step = max(1, min(_STEP, _ROOM // each))
    lines = np.empty(step * each + _BLOCK, np.uint8)
    signs = np.array([len(before), len(between)]), _padded(before), _padded(between)
    for row in range(0, len(first.numbers), step):
        stop = min(row + step, len(first.numbers))
        yield lines.data[: _write(first, second, row, stop, signs, start, lines)]


@njit(nogil=True, cache=True)
def _write(first, second, first_row, stop, signs, start, lines):
    """Write the lines of rows from `first_row` to `stop`; `start` is room for the beginning of a line, which rows of one event share."""
    lengths, before, between = signs
    end, n_start, is_first = 0, 0, True
    for row in range(first_row, stop):
        if is_first or first.numbers[row] != first.numbers[row - 1]:
            n_start = _append(before, 0, lengths[0], start, 0)
            n_start = _append_value(first, row, start, n_start)
            n_start = _append(between, 0, lengths[1], start, n_start)
            is_first = False
        end = _append(start, 0, n_start, lines, end)
        end = _append_value(second, row, lines, end)
        lines[end], lines[end + 1] = 125, 10  # a brace, and the end of the line
        end += 2
    return end


@njit(nogil=True, cache=True)
def _append(text, start, n_bytes, lines, end):
    for done in range(0, n_bytes, _BLOCK):
        copy_run(lines, end + done, text, start + done, _BLOCK)
    return end + n_bytes


@njit(nogil=True, cache=True)
def _append_value(column, row, lines, end):
    number = column.numbers[row]
    if len(column.text_start) > 1:
        start = column.text_start[number]
        return _append(column.text, start, column.text_start[number + 1] - start, lines, end)
    rest = np.uint64(number)
    if number < 0:
        lines[end] = 45  # a minus
        end += 1
        rest = ~rest + np.uint64(1)
    n_digits = 1
    while n_digits < 20 and rest >= _TENS[n_digits]:
        n_digits += 1
    place = end + n_digits
    while rest >= np.uint64(10):
        quotient = rest // np.uint64(100)
        pair = np.int64(rest - quotient * np.uint64(100))
        place -= 2
        lines[place], lines[place + 1] = _PAIRS[2 * pair], _PAIRS[2 * pair + 1]
        rest = quotient
    if place > end:
        lines[end] = np.uint8(48 + rest)
    return end + n_digits
