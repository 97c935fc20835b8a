"""Columns of documents in every form, both parsers, and what is wrong with single documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from matchyard.engines.twigs.encoder.events.intake import Column, column, encode, read
from matchyard.engines.twigs.encoder.layout import CLOSE
from matchyard.engines.twigs.language.options import Options, check
from matchyard.errors import ParseError, UsageError, XmlError
from tests.engines.twigs.xml_cases import vocabulary_of

VOCABULARY = vocabulary_of(["a", "b"])
DOCUMENTS = ["<a/>", "<b><a/>ä</b>", "<c/>"]
SIGNALS = [1, CLOSE, 2, 1, CLOSE, CLOSE, 0, CLOSE]
ENCODED = [document.encode() for document in DOCUMENTS]
FORMS = {
    "list of text": DOCUMENTS,
    "list of bytes": ENCODED,
    "mixed": [DOCUMENTS[0], bytearray(ENCODED[1]), memoryview(ENCODED[2])],
    "iterator": iter(DOCUMENTS),
    "numpy": np.array(DOCUMENTS, object),
    "numpy text": np.array(DOCUMENTS),
    "pandas": pd.Series(DOCUMENTS),
    "polars": pl.Series(DOCUMENTS),
    "polars bytes": pl.Series(ENCODED),
    "string": pa.array(DOCUMENTS),
    "large_string": pa.array(DOCUMENTS, pa.large_string()),
    "string_view": pa.array(DOCUMENTS, pa.string_view()),
    "binary": pa.array(ENCODED, pa.binary()),
    "binary_view": pa.array(ENCODED, pa.binary_view()),
    "large_binary": pa.array(ENCODED, pa.large_binary()),
    "dictionary": pa.array(DOCUMENTS).dictionary_encode(),
    "chunked": pa.chunked_array([DOCUMENTS[:1], DOCUMENTS[1:]]),
    "slice": pa.array(["<x/>", *DOCUMENTS, "<y/>"])[1:4],
}


@pytest.mark.parametrize("parser", ["scan", "expat"])
@pytest.mark.parametrize("form", FORMS)
def test_documents_come_in_many_forms(form: str, parser: str) -> None:
    values = DOCUMENTS if form == "iterator" else FORMS[form]
    given = iter(values) if form == "iterator" else values
    batch = encode(column(given, Options(parser=parser)), VOCABULARY)
    assert batch.signals.tolist() == SIGNALS
    assert batch.signal_start.tolist() == [0, 2, 6, 8]
    assert batch.depth.tolist() == [1, 2, 1]


def test_one_document_is_a_column_of_one() -> None:
    assert encode(column("<a/>", Options()), VOCABULARY).n_rows == 1


@pytest.mark.parametrize("empty", [[], pa.array([]), pa.array([], pa.string()), np.array([])])
@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_there_may_be_no_documents(empty: Any, parser: str) -> None:
    assert encode(column(empty, Options(parser=parser)), VOCABULARY).n_rows == 0


def test_rows_are_documents_of_the_same_column() -> None:
    rows = column(DOCUMENTS, Options()).rows(1, 3)
    assert isinstance(rows, Column)
    assert rows.n_rows == 2
    assert encode(rows, VOCABULARY).signals.tolist() == SIGNALS[2:]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], "document 0 is int"),
        (["<a/>", None], "document 1 is NoneType"),
        (pa.array(["<a/>", None]), "document 1 is null"),
        (pa.array([1]), "its type is int64"),
        (pa.table({"a": ["<a/>"]}), "a table"),
        (7, "not a column of documents, but int"),
    ],
)
def test_what_is_no_document_is_refused(values: Any, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        column(values, Options())


def test_text_is_utf_8_whatever_it_declares() -> None:
    document = '<?xml version="1.0" encoding="iso-8859-1"?><a x="ä"/>'
    assert encode(column([document], Options()), VOCABULARY).signals.tolist() == [1, CLOSE]
    latin = document.encode("iso-8859-1")
    assert encode(column([latin], Options()), VOCABULARY).signals.tolist() == [1, CLOSE]
    not_text = pa.array([b"<a>\xff</a>"], pa.binary()).view(pa.string())
    with pytest.raises(XmlError, match="document 0 at line 1, column 4"):
        encode(column(not_text, Options()), VOCABULARY)


def test_every_row_keeps_how_it_is_read() -> None:
    text = "<?xml version='1.0' encoding='latin-1'?><é/>"
    mixed = [text.encode("latin-1"), text, text.encode("latin-1"), text]
    vocabulary = vocabulary_of(["é"])
    for first in range(len(mixed)):
        rows = column(mixed, Options()).rows(first, len(mixed))
        assert encode(rows, vocabulary).signals.tolist() == [1, CLOSE] * (len(mixed) - first)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        batch = encode(column(pa.array([text], kind), Options()), vocabulary)
        assert batch.signals.tolist() == [1, CLOSE]


@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_only_malformed_documents_fail(parser: str) -> None:
    documents = ["<a/>", "<a>\n<b></a>", "<b/>", "<a", "<b><a/></b>"]
    batch, faults = read(column(documents, Options(parser=parser)), VOCABULARY)
    assert sorted(faults) == [1, 3]
    assert str(faults[1]) == "document 1 at line 2, column 6: mismatched tag"
    assert (faults[3].event, faults[3].line, faults[3].column) == (3, 1, 1)
    assert batch.signal_start.tolist() == [0, 2, 2, 4, 4, 8]
    assert batch.signals.tolist() == [1, CLOSE, 2, CLOSE, 2, 1, CLOSE, CLOSE]
    assert batch.depth.tolist() == [1, 0, 1, 0, 2]


def test_the_first_fault_is_raised_unless_documents_may_be_skipped() -> None:
    documents = ["<a/>", "<a>", "<b"]
    with pytest.raises(XmlError, match="document 1 at line 1, column 4: no element found"):
        encode(column(documents, Options()), VOCABULARY)
    assert encode(column(documents, Options(malformed="skip")), VOCABULARY).n_rows == 3


def test_what_the_scanner_cannot_read_is_put_in_its_place() -> None:
    documents = [b"<a/>", "<b/>".encode("utf-16"), b"<c/>", "<ä><a/></ä>".encode(), b"<b/>"]
    batch = encode(column(documents, Options()), VOCABULARY)
    assert batch.signals.tolist() == [1, -1, 2, -1, 0, -1, 0, 1, -1, -1, 2, -1]
    assert batch.depth.tolist() == [1, 1, 1, 2, 1]


@pytest.mark.parametrize(
    "options",
    [
        Options(max_depth=1),
        Options(max_document_bytes=10),
        Options(max_entity_expansion=0),
    ],
)
@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_limits_hold_for_both_parsers(options: Options, parser: str) -> None:
    entity = "x" * 100
    document = f"<!DOCTYPE a [<!ENTITY e '{entity}'>]><a>{'&e;' * 9}<b/></a>"
    given = column([document, "<a/>"], options._replace(parser=parser))
    assert list(read(given, VOCABULARY)[1]) == [0]
    assert read(column([document], Options(parser=parser)), VOCABULARY)[1] == {}


@pytest.mark.parametrize(
    "options",
    [
        Options(parser="sax"),
        Options(undefined_entities="keep"),
        Options(malformed="keep"),
        Options(max_depth=0),
        Options(max_document_bytes=0),
        Options(max_entity_expansion=-1),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Options) -> None:
    with pytest.raises(UsageError, match=r'option "'):
        check(options)
    check(Options())
