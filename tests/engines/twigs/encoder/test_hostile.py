"""Whatever is given for a twig, a document or a file, the answer is a result or a MatchyardError."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.twigs.language import Axis, Node, Source, Test, Twig
from matchyard.engines.twigs.language.model import Comparison


class Bytes(bytes):
    """Not quite bytes."""


def declared(encoding: str, text: bytes = b"<a/>") -> bytes:
    return b'<?xml version="1.0" encoding="' + encoding.encode() + b'"?>' + text


NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
)
HOSTILE: list[Any] = [
    *("", "\0", "\ud800", "<a>\ud800</a>", "<a/>\0", b"", b"\0", b"\xff\xfe<", b"\x00<", b"\xef\xbb\xbf"),
    *(None, float("nan"), 1, 10**400, [], {}, object(), [None], Bytes(b"<a/>"), memoryview(b"<a/>")),
    *("//a[b=" + "9" * 5000 + "]", "//a[b < '" + "9" * 5000 + "']", "//a[b = 1e400]", "//a[b = ౫v]"),
    *("(" * 10**4, "a" + "[b" * 10**4, "a" + "/a" * 10**4, "not(" * 10**4, "//a[.='\ud800']"),
    *("<a>" * 10**4 + "</a>" * 10**4, "<a>" + "9" * 5000 + "</a>", "<a x='" + "9" * 5000 + "'/>"),
    *("<a/>".encode(encoding) for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
    *map(declared, ("utf-16", "utf-32", "rot13", "base64", "idna", "undefined", "x" * 2000, "big5")),
    *(declared("utf-7", b"<a>+2AA-</a>"), declared("gb18030", b"<a>\x82</a>"), memoryview(b"<>x")[::2]),
    *(np.array(["<a/>", None], object), np.zeros((2, 2)), pa.array([1]), pa.nulls(2), NOT_UTF8, {"<a/>"}),
    *(pa.table({"a": ["<a/>"]}), pa.array(["<a/>"]).dictionary_encode(), range(3), pa.scalar("x")),
]  # fmt: skip


@pytest.fixture(scope="module", params=["scan", "expat"])
def index(request: pytest.FixtureRequest) -> my.TwigIndex:
    index = my.TwigIndex(options={"parser": request.param})
    return index.add("//a[@x = 1][. != 'q']", 1).add("//a[text() > 1]", 2).consolidate()


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_nothing_but_our_own_errors_is_raised(index: my.TwigIndex, number: int) -> None:
    given = HOSTILE[number]
    for verb in (index.match, index.check, index.parse_event, index.parse, index.texts):
        for value in (given, [given]):
            with suppress(my.MatchyardError):
                verb(value)
    with suppress(my.MatchyardError):
        index.explain(given, 1)
    for subscriptions in (given, [given]):
        with suppress(my.MatchyardError):
            my.TwigIndex().add_many(subscriptions, [1])
    with suppress(my.MatchyardError):
        my.TwigIndex().add(given, 1)
    source = io.BytesIO(given) if isinstance(given, bytes) else given
    if isinstance(given, str):
        source = io.StringIO(given)
    with suppress(my.MatchyardError):
        list(index.match_records(source, "a"))
    with suppress(my.MatchyardError):
        list(index.records(io.BytesIO(b"<r><a/></r>"), given))


def twig_of(*parts: Any) -> Twig:
    return Twig(((Node(Axis.CHILD, "a", False, (Node(Axis.CHILD, Test(*parts)),)),),))


@pytest.mark.parametrize(
    ("twig", "message"),
    [
        (Twig(None), "not the trees of a twig: None"),  # type: ignore[arg-type]
        (Twig((5,)), "not a tree: 5"),  # type: ignore[arg-type]
        (Twig(((Node(7, "a"),),)), "not one of Axis.CHILD, Axis.DESCENDANT: 7"),  # type: ignore[arg-type]
        (Twig(((Node(Axis.CHILD, "a", False, None),),)), "not the children of 'a': None"),  # type: ignore[arg-type]
        (twig_of(9, None, Comparison.EXISTS, None), "not one of Source.ATTRIBUTE"),
        (twig_of(Source.ATTRIBUTE, "x", 77, None), "not one of Comparison.EXISTS"),
        (twig_of(Source.ATTRIBUTE, 5, Comparison.EXISTS, None), "not the name of an attribute: 5"),
    ],
)
def test_a_twig_made_by_hand_is_refused_with_what_is_wrong(twig: Twig, message: str) -> None:
    with pytest.raises(my.ParseError, match=message):
        my.TwigIndex().add(twig, 1)


def test_what_is_no_file_or_no_name_is_told_so() -> None:
    index = my.TwigIndex()
    with pytest.raises(
        my.UsageError, match="not a file: 5; expected a path, or a file opened with"
    ):
        list(index.records(5, "a"))
    with pytest.raises(my.UsageError, match='not str; open the file with "rb"'):
        list(index.records(io.StringIO("<a/>"), "a"))
    with pytest.raises(my.UsageError, match="needs the name of an element"):
        list(index.records(io.BytesIO(b"<a/>"), None))  # type: ignore[arg-type]
    with pytest.raises(my.ParseError, match="row 0 is no UTF-8"):
        index.add_many(NOT_UTF8, [1])
