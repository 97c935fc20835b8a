"""The normal form: equal twigs compare equal, and what is malformed is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.engines.twigs.language import (
    Axis,
    Node,
    Source,
    Test,
    Twig,
    TwigError,
    format,
    parse,
)
from matchyard.engines.twigs.language.model import Comparison
from matchyard.engines.twigs.language.normal_form import MAX_STEPS
from tests.engines.twigs import strategies

EQUAL = [
    ("a[b][c]", "a[c]/b"),
    ("a[b][b]", "a/b"),
    ("a | b | a", "b | a"),
    ("a[b or c]", "a/c | a/b"),
    ("a[(b or c) and (b or c)]", "a[b] | a[c] | a[b][c]"),
    ("a[not(b and not(c))]", "a[not(b) or c]"),
    ("a | /", "/"),
    ("a[not(.)] | b", "b"),
    ("a[b and .]", "a[b]"),
    ("a[@x = 1.0]", "a[@x = 1]"),
    ("/", "/*"),
    ("not(//a)", "/* and not(//a)"),
]
DIFFERENT = [
    ("a/b", "a//b"),
    ("a[b/c]", "a[b]/c"),
    ("a[@x = 1]", "a[@x = '1']"),
    ("a[@x = '']", "a[@x = 'x']"),
    ("a[@x]", "a[@y]"),
    ("a[not(b)]", "a[b]"),
    ("a[. = 'x']", "a[text() = 'x']"),
    ("//a and //b", "//a or //b"),
    ("//a and /*", "//a and //*"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_twigs_compare_equal(one: str, other: str) -> None:
    assert parse(one) == parse(other)
    assert hash(parse(one)) == hash(parse(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_twigs_do_not(one: str, other: str) -> None:
    assert parse(one) != parse(other)
    assert format(parse(one)) != format(parse(other))


@given(strategies.twigs())
def test_a_formatted_twig_parses_back(twig: Twig) -> None:
    assert parse(format(twig)) == twig
    assert parse(twig) == twig


@given(strategies.nodes(), st.randoms())
def test_the_order_of_nodes_makes_no_difference(node: Node, random: Any) -> None:
    assert parse(Twig(((_shuffled(node, random),),))) == parse(Twig(((node, node),)))


def _shuffled(node: Node, random: Any) -> Node:
    children = [_shuffled(child, random) for child in node.children]
    children += children[:1]
    random.shuffle(children)
    return Node(node.axis, node.name, node.is_negated, tuple(children))


@given(st.text(st.characters(codec="utf-8"), max_size=8))
def test_any_text_can_be_compared_with(text: str) -> None:
    twig = Twig(((_below_a(Test(Source.TEXT, None, Comparison.EQUAL, text)),),))
    assert parse(format(twig)) == twig


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_can_be_compared_with(number: float) -> None:
    twig = Twig(((_below_a(Test(Source.VALUE, None, Comparison.LESS, number)),),))
    assert parse(format(twig)) == parse(twig) == twig


def test_zero_has_no_sign() -> None:
    [(node,)] = parse(Twig(((_below_a(Test(Source.VALUE, None, Comparison.LESS, -0.0)),),))).trees
    assert "operand=0.0" in repr(node)


def _below_a(test: Test) -> Node:
    return Node(Axis.CHILD, "a", False, (Node(Axis.CHILD, test),))


def test_nodes_are_kept_in_order_below_the_document() -> None:
    leaf = Node(Axis.CHILD, Test(Source.ATTRIBUTE, "x", Comparison.MORE, 1.0))
    c = Node(Axis.DESCENDANT, "c", True)
    b = Node(Axis.CHILD, "b", False, (leaf, c))
    assert parse("/b[not(.//c)][@x > 1] and //*") == Twig(((Node(Axis.DESCENDANT, "*"), b),))


def test_alternatives_are_limited() -> None:
    pairs = "".join(f"[b{n} or c{n}]" for n in range(10))
    assert len(parse(f"a{pairs}").trees) == 1024
    assert len(parse(f"a[not(d{pairs})]").trees) == 1
    for text in (f"a{pairs}[d or e]", f"a[not(b{pairs}[d or e])]", f"a{pairs} | b"):
        with pytest.raises(
            TwigError, match=r"stand for more than 1024 trees.*option max_trees"
        ) as e:
            parse(text)
        assert e.value.part == "limit"
    assert len(parse(f"a{pairs}[d or e]", max_trees=2048).trees) == 2048
    with pytest.raises(TwigError, match="more than 1 trees"):
        parse(parse("a | b"), max_trees=1)


def test_depth_is_limited() -> None:
    assert format(parse("/a" * MAX_STEPS)) == "/a" * MAX_STEPS
    deep = Node(Axis.CHILD, "a")
    for _ in range(MAX_STEPS):
        deep = Node(Axis.CHILD, "a", False, (deep,))
    steps = "/a" * (MAX_STEPS // 2)
    negated = Node(Axis.CHILD, "a")
    for _ in range(26):  # two brackets each
        negated = Node(Axis.CHILD, "a", True, (negated,))
    for value in (
        "/a" * (MAX_STEPS + 1),
        f"{steps}[b{steps}]",
        Twig(((deep,),)),
        Twig(((negated,),)),
    ):
        with pytest.raises(TwigError, match="nested too deeply; expected at most 200 steps") as e:
            parse(value)
        assert e.value.part == "limit"


EXISTS, EQUALS, LESS = Comparison.EXISTS, Comparison.EQUAL, Comparison.LESS
MALFORMED = [
    ("b", "not a node of a twig: 'b'"),
    (Node(Axis.CHILD, "b c"), "not the name of an element: 'b c'"),
    (Node(Axis.CHILD, "p:*"), "not the name of an element: 'p:\\*'"),
    (Node(Axis.CHILD, ""), "not the name of an element: ''"),
    (Node(Axis.CHILD, Test(Source.ATTRIBUTE, None, EXISTS, None)), "has the name of an attribute"),
    (Node(Axis.CHILD, Test(Source.TEXT, "x", EXISTS, None)), "has the name of an attribute"),
    (Node(Axis.CHILD, Test(Source.ATTRIBUTE, "*", EXISTS, None)), "not the name of an attribute"),
    (Node(Axis.CHILD, Test(Source.VALUE, None, EXISTS, None)), "only attributes and texts can be"),
    (Node(Axis.CHILD, Test(Source.TEXT, None, EXISTS, "x")), "only attributes and texts can be"),
    (Node(Axis.CHILD, Test(Source.TEXT, None, EQUALS, 1.0)), "compare with text, not 1.0"),
    (Node(Axis.CHILD, Test(Source.TEXT, None, LESS, "1")), "LESS compares with a number, not '1'"),
    (Node(Axis.CHILD, Test(Source.TEXT, None, LESS, True)), "compares with a number, not True"),
    (Node(Axis.CHILD, Test(Source.TEXT, None, LESS, math.nan)), "that a double can hold: nan"),
    (Node(Axis.CHILD, Test(Source.TEXT, None, LESS, 10**400)), "that a double can hold: 1000"),
    (Node(Axis.DESCENDANT, Test(Source.TEXT, None, EXISTS, None)), "a test is of its parent"),
    (
        Node(Axis.CHILD, Test(Source.TEXT, None, EXISTS, None), False, (Node(Axis.CHILD, "b"),)),
        "a test is of its parent",
    ),
]


@pytest.mark.parametrize(("node", "message"), MALFORMED)
def test_malformed_nodes_are_refused(node: Any, message: str) -> None:
    with pytest.raises(TwigError, match=message):
        parse(Twig(((Node(Axis.CHILD, "a", False, (node,)),),)))


def test_a_test_stands_below_an_element() -> None:
    leaf = Node(Axis.CHILD, Test(Source.TEXT, None, EXISTS, None))
    with pytest.raises(TwigError, match="at the top; expected it below an element"):
        parse(Twig(((leaf,),)))
