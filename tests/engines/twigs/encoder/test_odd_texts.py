"""Encodings, byte order marks and characters that are none: both parsers say the same, also when
they explain, and so does a file of records."""

from __future__ import annotations

import io
from typing import Any

import pytest

import matchyard as my
from matchyard.engines.twigs.language import Axis, Node, Source, Test, Twig
from matchyard.engines.twigs.language.model import Comparison

parsers = pytest.mark.parametrize("parser", ["scan", "expat"])


def declared(encoding: str, text: str = "é") -> str:
    return f"<?xml version='1.0' encoding='{encoding}'?><a>{text}</a>"


def index_of(parser: str) -> my.TwigIndex:
    index = my.TwigIndex(options={"parser": parser})
    return index.add("a[. = 'é']", key=1).add("/", key=2).consolidate()


READ = {
    "text": "<a>é</a>",
    "text with a mark": "\ufeff<a>é</a>",
    "text with a mark that says Latin-1": "\ufeff" + declared("latin-1"),
    "text that says Latin-1": declared("latin-1"),
    "text that says UTF-16": declared("utf-16"),
    "text that says what there is not": declared("none-such"),
    "bytes with a mark": "\ufeff<a>é</a>".encode(),
    "Latin-1": declared("iso-8859-1").encode("latin-1"),
    "another encoding of single bytes": declared("windows-1252").encode("cp1252"),
    "UTF-16": declared("utf-16").encode("utf-16"),
    "UTF-16 that declares nothing": "<a>é</a>".encode("utf-16"),
    "UTF-16 without a mark": "<a>é</a>".encode("utf-16-le"),
    "UTF-16 the other way round": "<a>é</a>".encode("utf-16-be"),
}


@parsers
@pytest.mark.parametrize("name", READ)
def test_an_encoding_makes_no_difference(name: str, parser: str) -> None:
    index = index_of(parser)
    assert sorted(index.match([READ[name]])[0]) == [1, 2]
    assert index.explain(READ[name], key=1) == 'match: //a[. = "é"]: /a (line 1)'


# what it is, the document, where it is refused, and why
REFUSED = [
    ("half a character", "<a>\n\ud800</a>", 2, 1, "invalid token"),
    ("its other half", "<a x='\udfff'/>", 1, 7, "invalid token"),
    ("bytes that Python smuggles through text", "<a>\udcc3\udca9</a>", 1, 4, "invalid token"),
    ("half a character in a name", "<\ud800/>", 1, 2, "invalid token"),
    ("half a character in text that says Latin-1", declared("latin-1", "\ud800"), 1, 44, "invalid token"),
    ("NUL", "<a>\0</a>", 1, 4, "invalid token"),
    ("U+FFFE", "<a>\ufffe</a>", 1, 4, "invalid token"),
    ("U+FFFF", "<a x='\uffff'/>", 1, 7, "invalid token"),
    ("two marks", "\ufeff\ufeff<a/>", 1, 2, "invalid token"),
    ("nothing", "", 1, 1, "no element found"),
    ("only a mark", b"\xef\xbb\xbf", 1, 2, "no element found"),
    ("bytes that are no UTF-8", b"<a>\xe9</a>", 1, 4, "invalid token"),
    ("bytes that say UTF-16", declared("utf-16", "").encode(), 1, 31, "declaration is incorrect"),
    ("UTF-16 that says UTF-8", declared("utf-8").encode("utf-16"), 1, 32, "declaration is incorrect"),
    ("an encoding that there is not", declared("none-such", "").encode(), 1, 31, "unknown encoding: none-such"),
    ("an encoding of several bytes", declared("shift_jis", "").encode(), 1, 31, "multi-byte"),
    ("an encoding that is not of text", declared("hex", "").encode(), 1, 31, "not a text encoding"),
    ("a byte that the encoding does not have", declared("us-ascii").encode("latin-1"), 1, 45, "invalid token"),
]  # fmt: skip


@parsers
@pytest.mark.parametrize(
    ("document", "line", "column", "reason"),
    [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_where_it_is(
    document: str | bytes, line: int, column: int, reason: str, parser: str
) -> None:
    index = index_of(parser)
    for refuse in (
        lambda: index.match(["<a/>", document]),
        lambda: index.check(["<a/>", document]),
        lambda: index.explain(document, key=2),
        lambda: index.parse_event(document),
    ):
        with pytest.raises(my.ParseError, match=reason) as caught:
            refuse()
        assert f"at line {line}, column {column}: " in str(caught.value)


# an entity in an attribute, which expat does not report where a DTD elsewhere might declare it
ENTITIES = [
    ("<!DOCTYPE a [<!ENTITY é 'x'>]><a b='&é;'/>", None),
    ("<!DOCTYPE a [<!ENTITY e 'x'>]><a b='&e;&#233;>&lt;' c=\"'&e;>\"/>", None),
    ("<!DOCTYPE a SYSTEM 'a.dtd'><a b='&é;'/>", "é"),
    (f"<!DOCTYPE a SYSTEM 'a.dtd'><a b='{'b' * 3000}' c='{'>' * 300}&u;'/>", "u"),
    ("<!DOCTYPE a SYSTEM 'a.dtd' [<!ENTITY e '<a b=\"&u;\"/>'>]><a>&e;</a>", "u"),
]


@pytest.mark.parametrize(("document", "undefined"), ENTITIES, ids=range(len(ENTITIES)))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])
def test_undefined_entities_of_attributes_are_refused_in_every_encoding(
    document: str, undefined: str | None, encoding: str
) -> None:
    start = "<?xml version='1.0' encoding='latin-1'?>" if encoding == "latin-1" else ""
    given = (start + document).encode(encoding)
    index = my.TwigIndex().add("/", key=1).consolidate()
    if undefined is None:
        assert index.match([given]).to_lists() == [[1]]
        return
    with pytest.raises(my.ParseError, match=f"undefined entity '{undefined}'"):
        index.match([given])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a[. = '\ud800']", r"column 8: found '\\ud800', half a character"),
        ("\ud800", r"column 1: found '\\ud800', half a character"),
        ("a[\n@\udfff]", r"line 2, column 2: found '\\udfff', half a character"),
    ],
)
def test_a_twig_with_half_a_character_is_refused_in_words_that_can_be_printed(
    text: str, message: str
) -> None:
    index = my.TwigIndex()
    for refuse in (
        lambda: index.add(text, key=1),
        lambda: index.add_many([text], keys=[1]),
        lambda: index.remove(1, text),
    ):
        with pytest.raises(my.ParseError, match=message) as caught:
            refuse()
        assert str(caught.value).encode()
    test = Test(Source.VALUE, None, Comparison.EQUAL, "\ud800")
    twig = Twig(((Node(Axis.CHILD, "a", False, (Node(Axis.CHILD, test),)),),))
    with pytest.raises(my.ParseError, match=r"compare with text, not '\\ud800'"):
        index.add(twig, key=1)


@pytest.mark.parametrize("operand", ["\0", "\ufffe", "\ufeff", " ", "\x01 2", "", "é\u0301"])
@parsers
def test_any_other_text_can_be_compared_with(operand: str, parser: str) -> None:
    index = my.TwigIndex(options={"parser": parser})
    index.add(f"a[. = '{operand}']", key=1).add(f"a[. != '{operand}']", key=2).consolidate()
    assert index.match(["<a>x</a>"]).to_lists() == [[2]]
    if operand not in ("\0", "\ufffe", "\x01 2"):  # which no document can have
        assert index.match([f"<a>{operand}</a>"]).to_lists() == [[1]]


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-32", "utf-32"),
        ("utf-16", "utf-16"),
        ("shift_jis", "shift_jis"),
        ("utf-8-sig", "utf-8"),
        ("latin-1", "iso-8859-1"),
    ],
)
def test_records_are_read_in_encodings_that_python_has(encoding: str, name: str) -> None:
    text = "Я" if encoding == "shift_jis" else "é"
    data = declared(name, f"<r>{text}</r>").encode(encoding)
    index = my.TwigIndex().add(f"/r[. = '{text}']", key=1).consolidate()
    for source in (io.BytesIO(data), io.BufferedReader(io.BytesIO(data))):
        [(documents, found)] = index.match_records(source, "r")
        assert (documents, found.to_lists()) == ([f"<r>{text}</r>".encode()], [[1]])


@pytest.mark.parametrize(
    ("source", "record", "message"),
    [
        (io.StringIO("<a/>"), "a", "open the file with"),
        (io.BytesIO(b"<a/>"), "\ud800", r"not '\\ud800'"),
        (io.BytesIO(declared("hex", "").encode()), "a", "'hex' is not a text encoding"),
        (io.BytesIO(declared("undefined", "").encode()), "a", "cannot be decoded"),
    ],
    ids=["text", "half a character", "no encoding of text", "no encoding"],
)
def test_what_is_no_file_of_records_is_refused(source: Any, record: str, message: str) -> None:
    index = my.TwigIndex().add("/", key=1).consolidate()
    with pytest.raises(my.MatchyardError, match=message):
        list(index.match_records(source, record))
