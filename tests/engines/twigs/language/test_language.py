"""What can be written, what cannot, and what the messages say and point at."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from matchyard.engines.twigs.language import TwigError, format, parse, parse_event
from matchyard.engines.twigs.language.xpath_tokens import EXAMPLE, UNSUPPORTED
from matchyard.errors import ParseError

# as written, and as formatted
WRITTEN = [
    ("/a//c[//d]/e", "/a//c[.//d]/e"),
    ("a/b", "//a/b"),
    ("/a[/b][//c]", "/a[b]//c"),
    ("*", "//*"),
    ("/", "/*"),
    ("/*", "/*"),
    ("/* or /a and not(/a)", "/* or /a and not(/a)"),
    ("/* and //a", "/* and //a"),
    ("not(//a) and /*", "not(//a)"),
    ("not(/)", "not(/)"),
    (".", "/*"),
    ("./a", "/a"),
    (".//a", "//a"),
    (". = 'x'", '/*[. = "x"]'),
    ("/a = 1", "/a[. = 1]"),
    ("@id", "//*[@id]"),
    ("//@id = 'x'", '//*[@id = "x"]'),
    ("text()", "//*[text()]"),
    ("a/@id", "//a[@id]"),
    ("a//@id", "//a[@id] | //a//*[@id]"),
    ("a//text()", "//a[text()] | //a//*[text()]"),
    ("a/descendant::text()", "//a[text()] | //a//*[text()]"),
    ("child::a/descendant::b/attribute::c", "//a//b[@c]"),
    ("a/descendant-or-self::node()/b", "//a//b"),
    ("a/self::node()/b/./c", "//a/b/c"),
    ("a//./b", "//a//b"),
    ("a//self::node()/b", "//a//b"),
    (" and ".join(["(a)"] * 60), "//a"),
    ("p:a[@q:b]", "//p:a[@q:b]"),
    ("a[.]", "//a"),
    ("a[not(.)]", "not(/)"),
    ("a[. = 'x']", '//a[. = "x"]'),
    ("a[b = 'x']", '//a/b[. = "x"]'),
    ("a[b = 'x'][c]", '//a[b = "x"]/c'),
    ("a[b/@x = 'y' and c/text()]/d", '//a[b/@x = "y"][c/text()]/d'),
    ("a[5 < @x]", "//a[@x > 5]"),
    ("a['5' >= @x]", "//a[@x <= 5]"),
    ("a[@x = -0.0]", "//a[@x = 0]"),
    ("a[@x = .50]", "//a[@x = 0.5]"),
    ("a[@x = 5.]", "//a[@x = 5]"),
    ("a[@x = 100000000000000000000000]", "//a[@x = 100000000000000000000000]"),
    ("a[@x = 0.0000001]", "//a[@x = 0.0000001]"),
    ("a[@x = '5']", '//a[@x = "5"]'),
    ("""a[@x = 'say "hi"']""", """//a[@x = 'say "hi"']"""),
    ("""a[@x = 'it''s "so"']""", '''//a[@x = "it's ""so"""]'''),
    ("a[@x|@y]", "//a[@x] | //a[@y]"),
    ("a[(@x|@y) = 1]", "//a[@x = 1] | //a[@y = 1]"),
    ("a[b or c and not(d)]", "//a/b | //a[not(d)]/c"),
    ("a[not(b or c)]", "//a[not(b)][not(c)]"),
    ("a[not(b and c)]", "//a[not(b)] | //a[not(c)]"),
    ("a[not(not(b))]", "//a/b"),
    ("a[not(b[c or d])]", "//a[not(b/c)][not(b/d)]"),
    ("a[not(b[not(c)])]", "//a[not(b[not(c)])]"),
    ("//a and not(//b or //c)", "//a and not(//b) and not(//c)"),
    ("not(//a) or //b", "not(//a) or //b"),
    ("/and/or[not]/div[mod and text]", "/and/or[div[mod]/text]/not"),
    ("a-b", "//a-b"),
    ("  a [ b ]\n/ c ", "//a[b]/c"),
    ("été/日本[@ключ]", "//été/日本[@ключ]"),
]


@pytest.mark.parametrize(("text", "formatted"), WRITTEN, ids=[row[0] for row in WRITTEN])
def test_a_text_is_read_as_it_is_meant(text: str, formatted: str) -> None:
    assert format(parse(text)) == formatted
    assert parse(formatted) == parse(text)


# text, the column that the caret is at, the part that is not supported
NOT_SUPPORTED = [
    ("a[1]", 3, "position"),
    ("a[-1]", 3, "position"),
    ("a[(2)]", 3, "position"),
    ("a[position() = 2]", 3, "position"),
    ("a/b[last()]", 5, "position"),
    ("a[contains(@x, 'y')]", 3, "function"),
    ("a[count(b) > 2]", 3, "function"),
    ("a[true()]", 3, "function"),
    ("id('x')/a", 1, "function"),
    ("a[@x = $y]", 8, "variable"),
    ("a/..", 3, "axis"),
    ("a[../b]", 3, "axis"),
    ("a[parent::b]", 3, "axis"),
    ("a[not(ancestor::b)]", 7, "axis"),
    ("a/following-sibling::b", 3, "axis"),
    ("a/preceding::*", 3, "axis"),
    ("*[self::a]", 3, "axis"),
    ("a/descendant-or-self::b", 3, "axis"),
    ("a[.//. = 'x']", 6, "axis"),
    ("a[@x + 1 = 2]", 6, "arithmetic"),
    ("a[@x * 2 > 4]", 6, "arithmetic"),
    ("a[b div 2 = 1]", 5, "arithmetic"),
    ("a[b mod 2]", 5, "arithmetic"),
    ("a[1 = b - 1]", 9, "arithmetic"),
    ("a[-b = 1]", 3, "arithmetic"),
    ("a[- -1 = b]", 3, "arithmetic"),
    ("a[@*]", 4, "wildcard"),
    ("attribute::*", 12, "wildcard"),
    ("p:*", 1, "wildcard"),
    ("a[@p:* = 1]", 4, "wildcard"),
    ("comment()", 1, "node"),
    ("a/node()", 3, "node"),
    ("a/processing-instruction('x')", 3, "node"),
    ("a[@x = @y]", 6, "comparison"),
    ("a[not(b) = 1]", 10, "comparison"),
    ("a['x']", 3, "constant"),
    ("a[b and 1]", 9, "constant"),
    ("a[not('x')]", 7, "constant"),
    ("1", 1, "constant"),
    ("a[text()[. = 'x']]", 9, "predicate"),
    ("a/@x[. = 'y']", 5, "predicate"),
    ("a/.[b]", 4, "predicate"),
    ("a/self::node()[b]", 15, "predicate"),
    ("a[(b | c)/d]", 10, "group"),
    ("(//a)[b]", 6, "group"),
    ("/@x", 2, "document"),
    ("/text()", 2, "document"),
]


@pytest.mark.parametrize(
    ("text", "column", "part"), NOT_SUPPORTED, ids=[row[0] for row in NOT_SUPPORTED]
)
def test_xpath_that_is_not_supported_is_named(text: str, column: int, part: str) -> None:
    first = _refused(text, column, part)
    assert UNSUPPORTED[part] in first or text == "a[.//. = 'x']"


def test_every_part_has_a_case() -> None:
    assert {part for _, _, part in NOT_SUPPORTED} == set(UNSUPPORTED)


MALFORMED = [
    ("", 1, "it ends here; expected a step, such as title, *, @year or text()"),
    ("//", 3, "it ends here; expected a step"),
    ("a/", 3, "it ends here; expected a step"),
    ("a[]", 3, "found ]; expected a step"),
    ("a[b", 4, "it ends here; expected /, //, [, a comparison, and, or or ]"),
    ("a]", 2, "found ]; expected /, //, [, a comparison, and, or or the end"),
    ("a b", 3, "found b; expected /, //, [, a comparison, and, or or the end"),
    ("a[(b]", 5, "found ]; expected /, //, [, a comparison, and, or or )"),
    ("a[not(b]", 8, "found ]; expected"),
    ("a[b = ]", 7, "found ]; expected a step"),
    ("a[b = 1 = 2]", 9, "found =; expected"),
    ("a[b == 1]", 6, "found =; expected a step"),
    ("a[b = 1e5]", 8, "found e5; expected"),
    ("a[b = 'x]", 7, "found ', which is not closed; expected a step"),
    ("a[@]", 4, "found ]; expected the name of an attribute"),
    ("a[@1]", 4, "found 1; expected the name of an attribute"),
    ("a/@b/c", 5, "found /; expected nothing below an attribute or text"),
    ("a/text()/b", 9, "found /; expected nothing below an attribute or text"),
    ("a/text(1)", 8, "found 1; expected ), as in text()"),
    ("a/foo::b", 3, "found foo; expected one of the axes child, descendant, attribute"),
    ("a::b", 1, "found a; expected one of the axes"),
    ("a |", 4, "it ends here; expected a step"),
    ("not(a) | b", 8, "found |; expected paths on both sides of |"),
    ("a/1", 3, "found 1; expected a step"),
    ("a & b", 3, "found &; expected"),
    ("a\0b", 2, "found '\\x00'; expected"),
    ("\ufeff/a", 1, "found '\\ufeff'; expected a step"),
    ("[b]", 1, "found [; expected a step"),
    ("a[/]", 4, "found ]; expected a step"),
    ("a[" + "'x' = " + "y" * 60 + " !]", 70, "found !; expected"),
]


@pytest.mark.parametrize(
    ("text", "column", "message"), MALFORMED, ids=[row[0][:30] for row in MALFORMED]
)
def test_malformed_text_is_shown_with_a_caret(text: str, column: int, message: str) -> None:
    assert message in _refused(text, column, "syntax")


@pytest.mark.parametrize(
    ("text", "column", "message", "part"),
    [
        ("a[@x < 'y']", 8, "expected a number, since < compares numbers", "comparison"),
        ("a['y' < @x]", 3, "expected a number, since > compares numbers", "comparison"),
        ("a[@x = " + "9" * 400 + "]", 8, "expected a number that a double can hold", "syntax"),
        ("a[@x < '" + "9" * 400 + "']", 8, "expected a number that a double can hold", "syntax"),
        ("a[b = ౫v]", 5, "only a path can be compared", "comparison"),
        ("a[b = ౫]", 5, "only a path can be compared", "comparison"),
        ("a[b = -౫]", 7, "arithmetic is not supported", "arithmetic"),
        ("a[b = ²]", 7, "expected a step", "syntax"),
        ("a[" * 51 + "b" + "]" * 51, 102, "at most 50 brackets within each other", "limit"),
        ("(" * 51 + "b" + ")" * 51, 51, "at most 50 brackets within each other", "limit"),
    ],
    ids=[
        *("text less", "less than text", "huge", "huge text", "digit in a name", "digit as a name"),
        *("minus digit", "raised digit", "deep brackets", "deep parentheses"),
    ],
)
def test_values_and_limits_are_checked(text: str, column: int, message: str, part: str) -> None:
    assert message in _refused(text, column, part)


def _refused(text: str, column: int, part: str) -> str:
    """The first line of the message; the caret stands below the column."""
    with pytest.raises(TwigError) as caught:
        parse(text)
    assert caught.value.part == part
    first, line, caret, example = str(caught.value).split("\n")
    assert first.startswith(f"not a twig: column {column}: ")
    place = caret.index("^")
    assert line[2:place] == text[max(0, column - 61) : column - 1]
    assert example == EXAMPLE
    return first


def test_the_line_is_named_where_there_are_several() -> None:
    with pytest.raises(TwigError, match="line 2, column 4: found 1; positions are not") as caught:
        parse("a\n [ 1]")
    assert "\n   [ 1]\n     ^" in str(caught.value)


def test_an_error_survives_pickling() -> None:
    with pytest.raises(TwigError) as caught:
        parse("a[1]")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.part) == (str(caught.value), "position")


@pytest.mark.parametrize("value", [None, 5, b"/a", ["/a"]])
def test_what_is_no_text_is_no_twig(value: Any) -> None:
    with pytest.raises(ParseError, match=r"not a twig: .*; expected text, for example"):
        parse(value)


def test_documents_are_bytes_or_text() -> None:
    assert parse_event("<a/>") == "<a/>"
    for given in (bytearray(b"<a/>"), memoryview(b"<a/>")):
        assert repr(parse_event(given)) == repr(b"<a/>")
    with pytest.raises(ParseError, match="not a document: 5; expected XML as bytes or text"):
        parse_event(5)


@pytest.mark.data
def test_the_patterns_of_docbook_are_read_or_named() -> None:
    folder = os.environ.get("MATCHYARD_DATA")
    if not folder:
        pytest.skip("needs MATCHYARD_DATA")
    lines = Path(folder, "xml", "xpath_patterns.txt").read_text("utf-8").splitlines()
    parts: Counter[str] = Counter()
    for _, text in (line.split("\t", 1) for line in lines):
        try:
            twig = parse(text)
        except TwigError as error:
            parts[error.part] += 1
        else:
            parts["supported"] += 1
            assert parse(format(twig)) == twig
    assert parts == {
        "supported": 1226, "axis": 27, "position": 19, "node": 15, "wildcard": 9, "function": 6,
        "predicate": 3,
    }  # fmt: skip
