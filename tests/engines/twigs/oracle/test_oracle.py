"""The definition itself: one row per decision of what a match means, and lxml as its judge."""

from __future__ import annotations

import pytest
from hypothesis import given

from matchyard.engines.twigs.language import Twig, format, parse
from matchyard.engines.twigs.language.options import DEFAULTS
from matchyard.engines.twigs.oracle import explain, is_match
from matchyard.engines.twigs.oracle.elements import read
from matchyard.errors import ParseError
from tests.engines.twigs import judge, strategies

# the tree of Figure 4 of the paper's kind: each path of the twig is there, the twig is not
FIGURE_4 = "<a><b><c><d/></c></b><c><e/></c></a>"

# what it shows, the twig, the document, and whether it matches
MEANING = [
    ("Figure 4: both paths are there, but below different elements", "/a//c[//d]/e", FIGURE_4, False),
    ("Figure 4: the first path", "/a//c//d", FIGURE_4, True),
    ("Figure 4: the second path", "/a//c/e", FIGURE_4, True),
    ("Figure 4: they meet", "/a//c[//d]/e", "<a><c><e/><b><d/></b></c></a>", True),
    ("/ is a child", "/a/b", "<a><c><b/></c></a>", False),
    ("// is at any depth", "/a//b", "<a><c><b/></c></a>", True),
    ("// is below the element, not itself", "/a//a", "<a/>", False),
    ("a relative twig starts anywhere", "b", "<a><b/></a>", True),
    ("an absolute one at the root", "/b", "<a><b/></a>", False),
    ("* is any element", "/*/b", "<a><b/></a>", True),
    ("* is no text", "/a/*", "<a>text</a>", False),
    ("names are compared as written, with their prefix", "/p:a", "<p:a xmlns:p='u'/>", True),
    ("… and no other", "/a", "<p:a xmlns:p='u'/>", False),
    ("case counts", "/A", "<a/>", False),
    ("/ is every document", "/", "<a/>", True),
    ("an attribute that is there", "a[@x]", "<a x=''/>", True),
    ("an attribute of another element", "a[@x]", "<a><b x='1'/></a>", False),
    ("an attribute anywhere", "@x", "<a><b x='1'/></a>", True),
    ("an attribute equals text exactly", "a[@x = '1']", "<a x=' 1'/>", False),
    ("an attribute equals a number with space around it", "a[@x = 1]", "<a x=' 1.0 '/>", True),
    ("an absent attribute differs from nothing", "a[@x != '1']", "<a/>", False),
    ("… but it is not equal either", "a[not(@x = '1')]", "<a/>", True),
    ("what is no number differs from numbers", "a[@x != 1]", "<a x='one'/>", True),
    ("… and is not less", "a[@x < 1 or @x >= 1]", "<a x='one'/>", False),
    ("an exponent is no number", "a[@x = 100]", "<a x='1e2'/>", False),
    ("nor is a plus sign", "a[@x = 1]", "<a x='+1'/>", False),
    ("other digits are none", "a[@x = 1]", "<a x='\u0661'/>", False),
    ("other space is none", "a[@x = 1]", "<a x='1\u00a0'/>", False),
    ("a large number", "a[@x > 9007199254740992]", "<a x='9007199254740994'/>", True),
    ("text() is each text apart", "a[text() = 'xy']", "<a>x<b/>y</a>", False),
    ("… one of which is enough", "a[text() = 'y']", "<a>x<b/>y</a>", True),
    ("a comment parts texts", "a[text() = 'xy']", "<a>x<!-- -->y</a>", False),
    ("a processing instruction does so too", "a[text() = 'y']", "<a>x<?p?>y</a>", True),
    ("CDATA does not", "a[text() = 'xyz']", "<a>x<![CDATA[y]]>z</a>", True),
    ("nor do references", "a[text() = 'x&y']", "<a>x&amp;y</a>", True),
    ("no text is no empty text", "a[text() = '']", "<a/>", False),
    (". is all text within", "a[. = 'xyz']", "<a>x<b>y<!-- --></b>z</a>", True),
    ("… which may be empty", "a[. = '']", "<a><b/></a>", True),
    ("a child compares by all text within", "a[b = 'yz']", "<a><b>y<c>z</c></b></a>", True),
    ("one of several children is enough", "a[b = 2]", "<a><b>1</b><b>2</b></a>", True),
    ("and another may differ", "a[b = 2][b != 2]", "<a><b>1</b><b>2</b></a>", True),
    ("not of a path: none is there", "a[not(b/c)]", "<a><b/><b><c/></b></a>", False),
    ("not within a path: one is without", "a/b[not(c)]", "<a><b/><b><c/></b></a>", True),
    ("not within not: all are with", "a[not(b[not(c)])]", "<a><b/><b><c/></b></a>", False),
    ("or within a step", "a/b[c or d]/e", "<a><b><d/><e/></b></a>", True),
    ("both parts of an and at one element", "a/b[c and d]", "<a><b><c/></b><b><d/></b></a>", False),
    ("and of the whole document", "//c and //d", "<a><b><c/></b><b><d/></b></a>", True),
    ("not of the whole document", "//c and not(//d)", "<a><b><c/></b><b><d/></b></a>", False),
    ("a union", "//x | //d", "<a><b><c/></b><b><d/></b></a>", True),
    ("entities of the document are text", "a[. = 'xyz']", "<!DOCTYPE a [<!ENTITY e 'y'>]><a>x&e;z</a>", True),
    ("bytes in an encoding of their own", "a[. = 'é']", "<?xml version='1.0' encoding='latin-1'?><a>é</a>".encode("latin-1"), True),
    ("text whose declaration is of bytes", "a[. = 'é']", "<?xml version='1.0' encoding='latin-1'?><a>é</a>", True),
]  # fmt: skip
meaning = pytest.mark.parametrize(
    ("text", "document", "matches"), [row[1:] for row in MEANING], ids=[row[0] for row in MEANING]
)


@meaning
def test_the_oracle_decides(text: str, document: str | bytes, matches: bool) -> None:
    assert is_match(parse(text), document) is matches
    said = explain(parse(text), document)
    assert said.startswith("match: " if matches else "no match")


@given(strategies.texts(), strategies.documents())
def test_texts_mean_what_they_mean_in_xpath(pair: strategies.Pair, document: str) -> None:
    text, xpath = pair
    assert is_match(parse(text, max_trees=100_000), document) is judge.is_match(xpath, document)


@given(strategies.twigs(), strategies.documents())
def test_a_formatted_twig_is_xpath_of_the_same_meaning(twig: Twig, document: str) -> None:
    assert is_match(twig, document) is judge.is_match(format(twig), document)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "document 0 at line 1, column 1: no element found"),
        ("<a><b></a>", "document 0 at line 1, column 9: mismatched tag"),
        ("<a>\n&nbsp;</a>", "document 0 at line 2, column 1: undefined entity"),
    ],
)
def test_malformed_documents_are_refused(document: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        is_match(parse("a"), document)
    assert str(caught.value) == message


def test_deep_documents_do_not_exhaust_the_stack() -> None:
    n = 20_000
    text = "<a>" * n + "<b/>" + "</a>" * n
    document = read(text, DEFAULTS._replace(max_depth=n + 1))
    assert is_match(parse("/a//a//b"), document)
    assert not is_match(parse("//b//a"), document)


BIBLIOGRAPHY = """<dblp>
<article><title>Sets</title></article>
<article year="1980"><author>Ada<b/></author><title>Trees</title></article>
<article year="late"><author>Bob</author></article>
</dblp>"""

EXPLAINED = [
    ("/dblp/article[author]/title", "match: /dblp/article[author]/title: /dblp/article[2]/title (line 3)"),
    ("//b and //title", "match: //b and //title: /dblp/article[2]/author/b (line 3), /dblp/article[1]/title (line 2)"),
    ("not(//c)", "match: not(//c)"),
    ("//article[@year = 'late']", 'match: //article[@year = "late"]: /dblp/article[3] (line 4)'),
    ("/", "match: /*"),
    ("not(/)", "no match: the twig is in no document"),
    ("/article", "no match: the root is dblp, not article"),
    ("//editor", "no match: the document has no editor"),
    ("//article[@year != 1][.//editor]", "no match: /dblp/article[2] (line 3) has @year != 1, but no editor below it"),
    ("/dblp/article/author/c", "no match: /dblp/article[2]/author (line 3) has no c as a child"),
    ("//article//b/c", "no match: /dblp/article[2]/author/b (line 3) has no c as a child"),
    ("/dblp/article/author/b/*", "no match: /dblp/article[2]/author/b (line 3) has no element as a child"),
    ("//article[author/b][title][editor]", "no match: /dblp/article[2] (line 3) has author/b, title, but no editor as a child"),
    ("//article[author][not(title)]/x | //article[author][not(title)]/y/z", "no match with any of 2 trees; the furthest got //article[author][not(title)]/x: /dblp/article[3] (line 4) has author, but no x as a child"),
    ("//article[title][author/b][not(title)]", "no match: /dblp/article[2] (line 3) has title, which the twig excludes"),
    ("//article[@year > 1990]", 'no match: /dblp/article[2] (line 3) has @year "1980", not > 1990'),
    ("//article[@month]", "no match: /dblp/article[1] (line 2) has no @month"),
    ("//article[@month = 'May']", 'no match: /dblp/article[1] (line 2) has no @month, expected = "May"'),
    ("//author[. = 'Cy']", 'no match: /dblp/article[2]/author (line 3) has the value "Ada", not = "Cy"'),
    ("//dblp[text() = 'x']", 'no match: /dblp (line 1) has text() "\n", "\n", "\n", …, not = "x"'),
    ("//dblp[not(article)]", "no match: /dblp (line 1) has article, which the twig excludes"),
    ("//article[title = 'Sets'][.//b/c]", "no match: /dblp/article[1] (line 2) has title = \"Sets\", but no b below it"),
    ("//a/x | //article[author]/editor", "no match with any of 2 trees; the furthest got //article[author]/editor: /dblp/article[2] (line 3) has author, but no editor as a child"),
    ("//article[author]/editor | //zebra/x", "no match with any of 2 trees; the furthest got //article[author]/editor: /dblp/article[2] (line 3) has author, but no editor as a child"),
    ("not(//author/b)", "no match: the document has .//author/b, which the twig excludes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), EXPLAINED, ids=[row[0] for row in EXPLAINED])
def test_an_explanation_says_how_far_a_twig_got(text: str, said: str) -> None:
    assert explain(parse(text), BIBLIOGRAPHY) == said


def test_an_explanation_shows_only_so_much() -> None:
    names = "".join(f"[b{i}]" for i in range(7))
    document = f"<a x='{'y' * 100}'>{''.join(f'<b{i}/>' for i in range(7))}</a>"
    assert explain(parse(f"a{names}/c"), document) == (
        "no match: /a (line 1) has b0, b1, b2, b3, b4 and 2 more, but no c as a child"
    )
    assert explain(parse("a[@x = 'z']"), document) == (
        f'no match: /a (line 1) has @x "{"y" * 39}…", not = "z"'
    )


@given(strategies.twigs(), strategies.documents())
def test_every_answer_has_an_explanation(twig: Twig, document: str) -> None:
    said = explain(twig, document)
    assert said.startswith("match: " if is_match(twig, document) else "no match")
