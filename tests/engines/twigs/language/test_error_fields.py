"""The fields of errors about twigs and documents, which editors and consoles point with."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.twigs.language import Axis, Node, Twig, TwigError
from matchyard.engines.twigs.language.model import TWIG
from matchyard.engines.twigs.xml.expat import EXAMPLE

STEP = "a step, such as title, *, @year or text()"
XML = "well-formed XML"


def fields(error: my.ParseError) -> tuple[Any, ...]:
    return error.line, error.column, error.found, error.expected, error.example


# text; line, column, found and expected
TEXTS = [
    ("", 1, 1, "the end", STEP),
    ("a[", 1, 3, "the end", STEP),
    ("a[b\n  = ]", 2, 5, "]", STEP),
    ('a["x]', 1, 3, '"', STEP),
    ("a b", 1, 3, "b", "/, //, [, a comparison, and, or or the end"),
    ("a[b > 'x']", 1, 7, "'x'", "a number, since > compares numbers"),
    ("a[x + 1]", 1, 5, "+", "a path, a text or a number"),
    ("a/following::b", 1, 3, "following", "one of the axes child, descendant and attribute"),
    ("a[count(b)]", 1, 3, "count", "not() or text()"),
    ("a[1]", 1, 3, "1", "a condition"),
    ("'x'", 1, 1, "'x'", "a path or a comparison"),
    ("$x", 1, 1, "$", "a text or a number"),
    ("a[@*]", 1, 4, "*", "a whole name"),
    ("a[\ud800]", 1, 3, "'\\ud800'", "whole characters"),
]


@pytest.mark.parametrize("wrong", TEXTS, ids=lambda wrong: ascii(wrong[0]))
def test_an_error_of_text_has_its_fields(wrong: tuple[Any, ...]) -> None:
    index = my.TwigIndex()
    with pytest.raises(TwigError) as caught:
        index.add(wrong[0], 1)
    with pytest.raises(my.ParseError, match="row 1: ") as in_column:
        index.add_many(["a", wrong[0]], [1, 2])
    assert fields(caught.value) == fields(in_column.value) == (*wrong[1:], TWIG)
    line, column, found = wrong[1:4]
    rest = wrong[0].split("\n")[line - 1][column - 1 :]
    assert rest == "" if found == "the end" else rest.startswith(found) or ascii(rest[:1]) == found
    assert index.parse(caught.value.example)


# a value of Python, or a column; found and expected
OBJECTS: list[tuple[Any, str, str]] = [
    (5, "5", "text"),
    (Twig(5), "5", "a tuple of Nodes, or of such tuples"),  # type: ignore[arg-type]
    (Twig(((Node(Axis.CHILD, "1"),),)), "'1'", "the name of an element"),
    (Twig(((Node(7, "a"),),)), "7", "one of Axis.CHILD, Axis.DESCENDANT"),  # type: ignore[arg-type]
    ("(a or b) and (c or d)", "more than 3 trees", "fewer, or a higher option max_trees"),
]


@pytest.mark.parametrize(("value", "found", "expected"), OBJECTS, ids=lambda v: str(v)[:30])
def test_an_error_of_an_object_has_its_fields(value: Any, found: str, expected: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.TwigIndex(options={"max_trees": 3}).parse(value)
    assert fields(caught.value) == (None, None, found, expected, TWIG)


@pytest.mark.parametrize(("column", "found"), [("a", "one str: 'a'"), (5, "5")], ids=str)
def test_an_error_of_a_column_has_its_fields(column: Any, found: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.TwigIndex().add_many(column, [1])
    assert fields(caught.value)[:3] == (None, None, found)
    assert str(caught.value.expected) in str(caught.value)
    assert my.TwigIndex().parse(caught.value.example)


# a document; line, column, found and expected
DOCUMENTS: list[tuple[Any, ...]] = [
    ("", 1, 1, "the end", XML),
    ("<a>", 1, 4, "the end", XML),
    ("<a>\n<b>\n</a>", 3, 3, "a>", XML),
    ("<a/><b/>", 1, 5, "<b/>", XML),
    ("<a>é&b;</a>", 1, 5, "&b;", XML),
    ("<a>é\n é&b;</a>".encode("utf-16"), 2, 3, "&b;", XML),
    (b"<?xml version='1.0' encoding='nope'?><a/>", 1, 31, "unknown encoding: nope",
     "an encoding that is known"),
    ("<a>" * 600, 1, 1537, "more than 512 elements in each other",
     "at most 512 elements in each other"),
    ("<!DOCTYPE a SYSTEM 'a.dtd'><a>&b;</a>", 1, 31, "'b'", "an entity that the document declares"),
]  # fmt: skip


@pytest.mark.parametrize("wrong", DOCUMENTS, ids=lambda wrong: repr(wrong[0])[:30])
@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_an_error_of_a_document_has_its_fields(wrong: tuple[Any, ...], parser: str) -> None:
    index = my.TwigIndex(options={"parser": parser})
    for read in (index.parse_event, lambda one: index.match(["<a/>", one])):
        with pytest.raises(my.ParseError) as caught:
            read(wrong[0])
        assert fields(caught.value) == (*wrong[1:], EXAMPLE)
        assert index.parse_event(caught.value.example)


@pytest.mark.parametrize(
    ("value", "found"), [(5, "int"), (pa.array([1]), "int64"), (pa.array([None]), "null")]
)
def test_what_is_no_document_has_no_place(value: Any, found: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.TwigIndex().match(value)
    assert fields(caught.value)[:3] == (None, None, found)


def test_an_error_of_a_file_of_records_has_its_fields() -> None:
    with pytest.raises(my.ParseError, match=r"^line 2, column 1: ") as caught:
        list(my.TwigIndex().records(io.BytesIO(b"<a>\n<b x='1'"), "b"))
    assert fields(caught.value) == (2, 1, "<b x='1'", "markup that ends", EXAMPLE)
