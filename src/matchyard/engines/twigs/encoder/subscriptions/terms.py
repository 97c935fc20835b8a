"""Terms: element names and value tests as text, to be interned, counted and joined.

A name stands for itself. A test starts with two digits, as no name does:

    article
    01year 1                      @year = "1"
    05year 4611686018427387904    @year < 2, with the bits of the double
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.language.model import Comparison, Source, Test
from matchyard.kernels.strings import string_buffers

_NINE = ord("9")
_OF_TEXT = (Comparison.EQUAL, Comparison.UNEQUAL)
_WIDE = pa.large_string()


def term_of(name: str | Test) -> str:
    """The term of a name other than `*`, or of a test."""
    if isinstance(name, str):
        return name
    operand = "" if name.operand is None else name.operand
    if not isinstance(operand, str):
        operand = str(struct.unpack("<q", struct.pack("<d", operand))[0])
    return f"{int(name.source)}{int(name.comparison)}{name.attribute or ''} {operand}"


def is_test(terms: pa.Array) -> NDArray[np.bool_]:
    """A flag per term: it is a test."""
    start, text = string_buffers(terms)
    are_tests: NDArray[np.bool_] = text[start[:-1]] <= _NINE  # names start with larger characters
    return are_tests


class Tests(NamedTuple):
    """The fields of tests as in a vocabulary, but with attributes and texts instead of ids."""

    source: NDArray[np.uint8]
    test: NDArray[np.uint8]
    attribute: pa.Array
    text: pa.Array
    number: NDArray[np.float64]


def read_tests(terms: pa.Array) -> Tests:
    """Parse the terms of tests."""
    start, text = string_buffers(terms)
    zero = np.uint8(ord("0"))
    parts = pc.split_pattern(pc.utf8_slice_codeunits(terms, 2), " ", max_splits=1).flatten()
    attribute = parts.take(pa.array(np.arange(0, len(parts), 2)))
    operand = parts.take(pa.array(np.arange(1, len(parts), 2)))
    test = text[start[:-1] + 1] - zero
    bits = pc.if_else(pa.array(test > max(_OF_TEXT)), operand, pa.scalar("0", _WIDE))
    number = bits.cast(pa.int64()).to_numpy().view(np.float64)
    return Tests(text[start[:-1]] - zero, test, attribute, operand, number)


def terms_of(vocabulary: Vocabulary) -> pa.Array:
    """The terms of all symbols from 1 on."""
    names = vocabulary.names.to_arrow().cast(_WIDE)
    if not len(vocabulary.source):
        return names
    return pa.concat_arrays([names, _tests_of(vocabulary)])


def _tests_of(vocabulary: Vocabulary) -> pa.Array:
    test = vocabulary.test
    digits = pa.array(vocabulary.source.astype(np.int64) * 10 + test).cast(_WIDE)
    head = pc.utf8_lpad(digits, 2, padding="0")
    attribute = _chosen(vocabulary.attributes.to_arrow(), vocabulary.attribute)
    text = _chosen(vocabulary.texts.to_arrow(), vocabulary.text)
    bits = pa.array(np.ascontiguousarray(vocabulary.number).view(np.int64)).cast(_WIDE)
    operand = pc.if_else(pa.array(test > max(_OF_TEXT)), bits, text)
    start = pc.binary_join_element_wise(head, attribute, pa.scalar("", _WIDE))
    return pc.binary_join_element_wise(start, operand, pa.scalar(" ", _WIDE))


def _chosen(texts: pa.Array, ids: NDArray[np.int32]) -> pa.Array:
    """The texts of the given ids, empty for -1."""
    wanted = pa.array(ids, pa.int64(), mask=ids < 0)
    return pc.fill_null(texts.cast(_WIDE).take(wanted), "")


def label_of(vocabulary: Vocabulary, symbol: int) -> str | Test:
    """The name or test of a symbol from 1 on."""
    number = symbol - 1 - vocabulary.n_names
    if number < 0:
        return vocabulary.names.name(symbol - 1)
    source, test = Source(vocabulary.source[number]), Comparison(vocabulary.test[number])
    attribute = vocabulary.attribute[number]
    operand: str | float | None = None
    if test in _OF_TEXT:
        operand = vocabulary.texts.name(vocabulary.text[number])
    elif test != Comparison.EXISTS:
        operand = float(vocabulary.number[number])
    name = vocabulary.attributes.name(attribute) if source == Source.ATTRIBUTE else None
    return Test(source, name, test, operand)
