"""Twigs and documents for Hypothesis, from small alphabets so that they often meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from matchyard.engines.twigs.language import Axis, Node, Source, Test, Twig, parse
from matchyard.engines.twigs.language.model import Comparison

NAMES = ["a", "b", "c"]
ATTRIBUTES = ["x", "y"]
TEXTS = ["1", "2", "1.5", "-1", " 2 ", "x", "x y", ".5", "2.", "1 1", "-", ""]
MARKED_UP = ["1", "2", " 2 ", "x", "&#49;", "x &lt;", "<![CDATA[x]]>", "<!--x-->", "<?x y?>", "\n"]
NUMBERS = [1.0, 2.0, 1.5, -1.0, 0.5, 0.0]
PLAIN = [*NAMES, "*"]

Pair = tuple[str, str]  # a text in our language, and the XPath that means the same


def documents(max_parts: int = 14) -> st.SearchStrategy[str]:
    """Documents with attributes, texts, CDATA, comments and processing instructions."""
    attributes = st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(TEXTS), max_size=2)
    names = st.sampled_from(NAMES)
    parts = st.recursive(
        st.sampled_from(MARKED_UP) | st.builds(_element, names, attributes, st.just([])),
        lambda inner: st.builds(_element, names, attributes, st.lists(inner, max_size=4)),
        max_leaves=max_parts,
    )
    return st.builds(_element, names, attributes, st.lists(parts, max_size=4))


def _element(name: str, attributes: dict[str, str], parts: list[str]) -> str:
    written = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(parts)}</{name}>"


@st.composite
def texts(draw: st.DrawFn) -> Pair:
    """Twigs as they are written, in every form of the language."""
    return _several(
        draw, _paths(draw, True, 2) if draw(st.booleans()) else _condition(draw, True, 2)
    )


def _several(draw: st.DrawFn, first: Pair) -> Pair:
    """A text alone, or with another one."""
    word = draw(st.sampled_from(["", "", " or ", " and "]))
    return _joined(word, first, _condition(draw, True, 1)) if word else first


def _joined(word: str, *pairs: Pair) -> Pair:
    ours, xpath = (word.join(texts) for texts in zip(*pairs))
    return ours, xpath


def _condition(draw: st.DrawFn, is_top: bool, size: int) -> Pair:
    kinds = ["path", "compared", "mirrored", "not", "and", "or", "(" if size else "path"]
    kind = draw(st.sampled_from(kinds if size else kinds[:3]))
    if kind in ("and", "or"):
        parts = [_condition(draw, is_top, size - 1) for _ in range(2)]
        return _joined(f" {kind} ", *parts)
    if kind in ("not", "("):
        inner = _condition(draw, is_top, size - 1)
        start = "not(" if kind == "not" else "("
        return _joined("", (start, start), inner, (")", ")"))
    paths = _paths(draw, is_top, size)
    if kind == "path":
        return paths
    op = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    values = ["1", "1.5", "-1", "'2'", '" 2 "'] + (["'x'", '"x y"', "''"] if op in "!=" else [])
    value = draw(st.sampled_from(values))
    compared = (value, value), (op, op), paths
    return _joined(" ", *(compared if kind == "mirrored" else compared[::-1]))


def _paths(draw: st.DrawFn, is_top: bool, size: int) -> Pair:
    """A path, or several with a bar between them."""
    n = draw(st.sampled_from([1, 1, 1, 2]))
    return _joined(" | ", *(_path(draw, is_top, size) for _ in range(n)))


def _path(draw: st.DrawFn, is_top: bool, size: int) -> Pair:
    if not is_top and draw(st.integers(0, 3)) == 0:
        return _joined("", draw(st.sampled_from([(one, one) for one in _ENDS])))
    start = draw(st.sampled_from(_TOP_STARTS if is_top else _INNER_STARTS))
    steps = [start, _step(draw, size)]
    for _ in range(draw(st.integers(0, 2))):
        between = draw(st.sampled_from(["/", "/", "//", "/./", "//./", "/descendant::"]))
        steps += [(between, between), _step(draw, size)]
    end = draw(st.sampled_from(["", "", "", "/@x", "//@y", "/text()", "//text()", "/."]))
    return _joined("", *steps, (end, end))


_ENDS = ["@x", "@y", "attribute::x", "text()", ".", ".//text()", ".//@x"]
_TOP_STARTS = [("/", "/"), ("//", "//"), ("", "//"), ("descendant::", "//"), ("./", "/")]
_INNER_STARTS = [
    ("", ""), ("child::", ""), ("./", ""), ("/", ""), (".//", ".//"), ("//", ".//"),
    ("self::node()/", ""), ("descendant-or-self::node()/", ".//"),
]  # fmt: skip


def _step(draw: st.DrawFn, size: int) -> Pair:
    name = draw(st.sampled_from(PLAIN))
    n_predicates = draw(st.sampled_from([0, 0, 1, 2])) if size else 0
    pairs = [(name, name)]
    for _ in range(n_predicates):
        pairs += [("[", "["), _condition(draw, False, size - 1), ("]", "]")]
    return _joined("", *pairs)


@st.composite
def tests(draw: st.DrawFn) -> Test:
    """Any test of a value."""
    source = draw(st.sampled_from(Source))
    attribute = draw(st.sampled_from(ATTRIBUTES)) if source == Source.ATTRIBUTE else None
    how = draw(st.sampled_from(list(Comparison)[source == Source.VALUE :]))
    operand: Any = None
    if how in (Comparison.EQUAL, Comparison.UNEQUAL):
        operand = draw(st.sampled_from(TEXTS))
    elif how != Comparison.EXISTS:
        operand = draw(st.sampled_from(NUMBERS))
    return Test(source, attribute, how, operand)


def nodes(max_nodes: int = 5, with_tests: bool = True) -> st.SearchStrategy[Node]:
    """Nodes that may stand at the top of a tree."""
    axes, names = st.sampled_from(Axis), st.sampled_from(PLAIN)
    is_negated = st.sampled_from([False, False, True])
    leaves = st.builds(Node, axes, names, is_negated)
    if with_tests:
        leaves |= st.builds(Node, st.just(Axis.CHILD), tests(), is_negated)
    inner = st.recursive(
        leaves,
        lambda below: st.builds(
            Node, axes, names, is_negated, st.lists(below, max_size=3).map(tuple)
        ),
        max_leaves=max_nodes,
    )
    return st.builds(Node, axes, names, is_negated, st.lists(inner, max_size=3).map(tuple))


@st.composite
def twigs(draw: st.DrawFn, with_tests: bool = True) -> Twig:
    """Any twig, as `parse` gives it; now and then one that every document or none matches."""
    tree = st.lists(nodes(with_tests=with_tests), min_size=draw(st.sampled_from([0, 1, 1, 1])))
    trees = draw(st.lists(tree.map(lambda some: tuple(some[:2])), max_size=2))
    return parse(Twig(tuple(trees)))
