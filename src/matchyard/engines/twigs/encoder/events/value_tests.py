"""Find the value tests that an attribute or a text satisfies.

The tests of one attribute, of all texts, or of all values are a *group*. A group is sorted by kind
and operand. The tests that a value satisfies are then runs, which binary search finds:

    group      0 … n_attributes - 1 by attribute, then TEXT, then VALUE
    run        group * n_kinds + kind: tests run_start[run] … run_start[run + 1] - 1
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.language.model import Comparison, Source, number
from matchyard.kernels.hashing import is_equal, xxh64
from matchyard.kernels.strings import Names, home

N_KINDS = len(Comparison)
NO_NUMBER, UNSURE = 0, -1  # of `read_number`, besides 1
_EXACT = 1 << 53  # integers up to here are doubles, and so are powers of ten up to 22
_TENS = 10.0 ** np.arange(23)
_EQUAL, _UNEQUAL = int(Comparison.EQUAL), int(Comparison.UNEQUAL)
_NUMBER_EQUAL, _NUMBER_UNEQUAL = int(Comparison.NUMBER_EQUAL), int(Comparison.NUMBER_UNEQUAL)
_LESS, _AT_MOST, _MORE = int(Comparison.LESS), int(Comparison.AT_MOST), int(Comparison.MORE)


class Tests(NamedTuple):
    """The tests of a vocabulary by group and kind."""

    run_start: NDArray[np.int64]  # [n_groups * N_KINDS + 1]
    symbol: NDArray[np.int32]  # [n_tests]
    text: NDArray[np.int32]  # [n_tests] id among the texts, rising within a run
    number: NDArray[np.float64]  # [n_tests] rising within a run
    length_bits: NDArray[np.uint64]  # [n_groups] a bit for each length of a text, modulo 64


def group_tests(vocabulary: Vocabulary) -> Tests:
    """The tests of a vocabulary, sorted."""
    n_attributes = vocabulary.attributes.n_names
    group = np.where(
        vocabulary.source == Source.ATTRIBUTE.value,  # NumPy may swallow Ctrl-C at an IntEnum
        vocabulary.attribute,
        n_attributes + vocabulary.source.astype(np.int64) - 1,
    )
    run = group * N_KINDS + vocabulary.test
    order = np.lexsort((vocabulary.number, vocabulary.text, run))
    bounds = np.arange((n_attributes + 2) * N_KINDS + 1)
    return Tests(
        np.searchsorted(run[order], bounds).astype(np.int64),
        (1 + vocabulary.n_names + order).astype(np.int32),
        vocabulary.text[order].astype(np.int32),
        vocabulary.number[order].astype(np.float64),
        _length_bits(vocabulary, group),
    )


def _length_bits(vocabulary: Vocabulary, group: NDArray[np.int64]) -> NDArray[np.uint64]:
    bits = np.zeros(vocabulary.attributes.n_names + 2, np.uint64)
    has_text = vocabulary.text >= 0
    lengths = np.diff(vocabulary.texts.text_start)[vocabulary.text[has_text]]
    np.bitwise_or.at(bits, group[has_text], np.uint64(1) << (lengths & 63).astype(np.uint64))
    return bits


class Values:
    """Find the tests that values satisfy, as the kernels do, for documents that expat reads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._symbols = _ids(vocabulary.names)
        self._attributes = _ids(vocabulary.attributes)
        self._tests = group_tests(vocabulary)
        self._run_start = self._tests.run_start.tolist()
        self._leaf = np.int32(-2) - self._tests.symbol
        self._texts = _ids(vocabulary.texts)
        self.has_value_tests = bool((vocabulary.source == Source.VALUE.value).any())

    def symbol(self, name: str) -> int:
        """The symbol of an element."""
        return self._symbols.get(name, -1) + 1

    def leaves_of_attribute(self, name: str, value: str) -> array[int]:
        """Signals for the tests that an attribute satisfies."""
        attribute = self._attributes.get(name)
        return array("i") if attribute is None else self._leaves(attribute, value)

    def leaves_of_text(self, text: str) -> array[int]:
        """Signals for the tests that a text satisfies."""
        return self._leaves(len(self._attributes), text)

    def leaves_of_value(self, value: str) -> array[int]:
        """Signals for the tests that the value of an element satisfies."""
        return self._leaves(len(self._attributes) + 1, value)

    def _leaves(self, group: int, value: str) -> array[int]:
        """Leaves for the tests of a group that a value satisfies: of each kind one run, or the two
        runs around an excluded one. The cost depends on the satisfied tests, not on all tests."""
        leaves, starts, first = array("i"), self._run_start, group * N_KINDS
        if starts[first] == starts[first + N_KINDS]:
            return leaves
        for kind in Comparison:
            start, end = starts[first + kind], starts[first + kind + 1]
            if start < end:
                for low, high in self._runs(kind, start, end, value):
                    leaves.frombytes(self._leaf[low:high].tobytes())
        return leaves

    def _runs(self, kind: Comparison, start: int, end: int, value: str) -> list[tuple[int, int]]:
        if kind == Comparison.EXISTS:
            return [(start, end)]
        is_of_text = kind in (Comparison.EQUAL, Comparison.UNEQUAL)
        operands: Any = self._tests.text if is_of_text else self._tests.number
        wanted = self._texts.get(value, -1) if is_of_text else number(value)
        if isinstance(wanted, float) and isnan(wanted):  # unequal to all
            return [(start, end)] if kind == Comparison.NUMBER_UNEQUAL else []
        low = bisect_left(operands, wanted, start, end)
        high = bisect_right(operands, wanted, low, end)
        if kind in (Comparison.EQUAL, Comparison.NUMBER_EQUAL):
            return [(low, high)]
        if kind in (Comparison.UNEQUAL, Comparison.NUMBER_UNEQUAL):
            return [(start, low), (high, end)]
        if kind in (Comparison.LESS, Comparison.AT_MOST):
            return [(high if kind == Comparison.LESS else low, end)]
        return [(start, low if kind == Comparison.MORE else high)]


def _ids(names: Names) -> dict[str, int]:
    return {names.name(i): i for i in range(names.n_names)}


@njit(nogil=True, cache=True)
def read_number(text, start, end):
    """Parse a number; returns 1 and the number, NO_NUMBER and NaN, or UNSURE and NaN if one division
    may not give the nearest double."""
    while start < end and (text[start] == 32 or 9 <= text[start] <= 10 or text[start] == 13):
        start += 1
    while start < end and (text[end - 1] == 32 or 9 <= text[end - 1] <= 10 or text[end - 1] == 13):
        end -= 1
    is_negative = start < end and text[start] == 45
    mantissa, n_digits, n_decimals, has_point = 0, 0, 0, False
    for i in range(start + is_negative, end):
        byte = text[i]
        if byte == 46 and not has_point:
            has_point = True
        elif 48 <= byte <= 57:
            n_digits += 1
            n_decimals += has_point
            if mantissa <= _EXACT:
                mantissa = 10 * mantissa + (byte - 48)
        else:
            return NO_NUMBER, np.nan
    if n_digits == 0:
        return NO_NUMBER, np.nan
    if mantissa > _EXACT or n_decimals > 22:
        return UNSURE, np.nan
    number = mantissa / _TENS[n_decimals]
    return 1, -number if is_negative else number


@njit(nogil=True, cache=True)
def _first_at_least(values, start, end, value):
    while start < end:
        middle = (start + end) // 2
        if values[middle] < value:
            start = middle + 1
        else:
            end = middle
    return start


@njit(nogil=True, cache=True)
def _first_above(values, start, end, value):
    while start < end:
        middle = (start + end) // 2
        if values[middle] <= value:
            start = middle + 1
        else:
            end = middle
    return start


@njit(nogil=True, cache=True)
def _add_run(symbol, start, end, signals, n_signals):
    """Append leaves for a run of tests if they fit; returns the number of signals with them."""
    if n_signals + end - start <= len(signals):
        for i in range(start, end):
            signals[n_signals + i - start] = -2 - symbol[i]
    return n_signals + max(end - start, 0)


@njit(nogil=True, cache=True)
def add_leaves(
    run_start, symbol, operand, number, length_bits, slots, word_start, words, group, text, start,
    end, signals, n_signals,
):  # fmt: skip
    """Append leaves for the tests of a group that a text satisfies; returns the number of signals
    with them, even if they do not fit, or UNSURE.

    The arrays of the tests and of their texts are single arguments: taking them out of tuples for
    every text would cost more than the tests.
    """
    first = group * N_KINDS
    n_signals = _add_run(symbol, run_start[first], run_start[first + 1], signals, n_signals)
    begin, middle = run_start[first + _EQUAL], run_start[first + _UNEQUAL]
    stop = run_start[first + _UNEQUAL + 1]
    if begin < stop:
        word = np.int64(-1)
        if (length_bits[group] >> np.uint64((end - start) & 63)) & np.uint64(1):
            word = _find_text(slots, word_start, words, text, start, end)
        low = high = middle
        if word >= 0:
            low = _first_at_least(operand, begin, middle, word)
            high = _first_above(operand, low, middle, word)
            n_signals = _add_run(symbol, low, high, signals, n_signals)
            low = _first_at_least(operand, middle, stop, word)
            high = _first_above(operand, low, stop, word)
        n_signals = _add_run(symbol, middle, low, signals, n_signals)
        n_signals = _add_run(symbol, high, stop, signals, n_signals)
    if stop < run_start[first + N_KINDS]:
        return _add_numbers(run_start, first, symbol, number, text, start, end, signals, n_signals)
    return n_signals


@njit(nogil=True, cache=True)
def _find_text(slots, word_start, words, text, start, end):
    """The id of a text, or -1: `find_name` with single arrays instead of a tuple."""
    code = xxh64(text, start, end)
    length, upper = end - start, code >> np.uint64(32)
    position = home(code, len(slots))
    while slots[position] != np.uint64(0):
        slot = slots[position]
        if slot >> np.uint64(32) == upper:
            word = np.int64(slot & np.uint64(0xFFFFFFFF)) - 1
            begin = word_start[word]
            is_long = word_start[word + 1] - begin == length
            if is_long and is_equal(words, begin, text, start, length):
                return word
        position += 1
        if position == len(slots):
            position = 0
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _add_numbers(run_start, group_start, symbol, numbers, text, start, end, signals, n_signals):
    kind, number = read_number(text, start, end)
    if kind == UNSURE:
        return np.int64(UNSURE)
    if kind == NO_NUMBER:  # unequal to every number, and nothing else
        run = group_start + _NUMBER_UNEQUAL
        return _add_run(symbol, run_start[run], run_start[run + 1], signals, n_signals)
    for test in range(_NUMBER_EQUAL, N_KINDS):
        begin, stop = run_start[group_start + test], run_start[group_start + test + 1]
        if begin == stop:
            continue
        first = _first_at_least(numbers, begin, stop, number)
        last = _first_above(numbers, begin, stop, number)
        if test == _NUMBER_EQUAL:
            n_signals = _add_run(symbol, first, last, signals, n_signals)
        elif test == _NUMBER_UNEQUAL:
            n_signals = _add_run(symbol, begin, first, signals, n_signals)
            n_signals = _add_run(symbol, last, stop, signals, n_signals)
        elif test == _LESS:
            n_signals = _add_run(symbol, last, stop, signals, n_signals)
        elif test == _AT_MOST:
            n_signals = _add_run(symbol, first, stop, signals, n_signals)
        elif test == _MORE:
            n_signals = _add_run(symbol, begin, first, signals, n_signals)
        else:
            n_signals = _add_run(symbol, begin, last, signals, n_signals)
    return n_signals
