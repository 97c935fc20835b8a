"""Format twigs as text that means the same in this language and in XPath."""

from __future__ import annotations

from decimal import Decimal

from matchyard.engines.twigs.language.model import ROOT, Axis, Comparison, Node, Source, Test, Twig
from matchyard.engines.twigs.language.normal_form import trunk

_SIGNS = {
    Comparison.EQUAL: "=",
    Comparison.UNEQUAL: "!=",
    Comparison.NUMBER_EQUAL: "=",
    Comparison.NUMBER_UNEQUAL: "!=",
    Comparison.LESS: "<",
    Comparison.AT_MOST: "<=",
    Comparison.MORE: ">",
    Comparison.AT_LEAST: ">=",
}


def format_twig(twig: Twig) -> str:
    """The text of a twig."""
    if not twig.trees:
        return "not(/)"
    are_paths = all(len(tree) == 1 and not tree[0].is_negated for tree in twig.trees)
    return (" | " if are_paths else " or ").join(map(format_tree, twig.trees))


def format_tree(tree: tuple[Node, ...]) -> str:
    """The text of a tree."""
    needless = all(node.is_negated for node in tree if node != ROOT)  # ROOT is implied
    nodes = [node for node in tree if not (needless and node == ROOT)] or [ROOT]
    return " and ".join(_negated(node, _slash(node) + format_node(node)) for node in nodes)


def format_node(node: Node) -> str:
    """The text of a node and its descendants, without the axis."""
    if isinstance(node.name, Test):
        return format_test(node.name)
    along = trunk(node)
    inner = "".join(f"[{format_child(child)}]" for child in node.children if child is not along)
    return node.name + inner + (_slash(along) + format_node(along) if along else "")


def format_child(node: Node) -> str:
    """The text of a node in the brackets of its parent."""
    return _negated(node, _compared(node) or f"{_dot(node)}{format_node(node)}")


def format_test(test: Test) -> str:
    """The text of a test of an element."""
    return format_source(test) + format_comparison(test)


def format_comparison(test: Test) -> str:
    """A sign and an operand with a space before each; empty for EXISTS."""
    if test.comparison == Comparison.EXISTS:
        return ""
    operand = test.operand
    if isinstance(operand, str):
        return f" {_SIGNS[test.comparison]} {quote(operand)}"
    return f" {_SIGNS[test.comparison]} {format(Decimal(repr(operand)), 'f').removesuffix('.0')}"


def quote(text: str) -> str:
    """A text in quotes. XPath cannot write a text with both kinds of quotes; here `"` is doubled."""
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace('"', '""') + '"'


def _compared(node: Node) -> str:
    """`c = "v"` for `c[. = "v"]`, and `c/@a` for `c[@a]`."""
    if len(node.children) != 1 or node.children[0].is_negated:
        return ""
    test = node.children[0].name
    if not isinstance(test, Test):
        return ""
    end = "" if test.source == Source.VALUE else f"/{format_source(test)}"
    return f"{_dot(node)}{node.name}{end}{format_comparison(test)}"


def format_source(test: Test) -> str:
    """The source of a test: `@name`, `text()` or `.`."""
    if test.source == Source.ATTRIBUTE:
        return f"@{test.attribute}"
    return "text()" if test.source == Source.TEXT else "."


def _slash(node: Node) -> str:
    return "/" if node.axis == Axis.CHILD else "//"


def _dot(node: Node) -> str:
    """The start of a path in brackets: `.//` for a descendant."""
    return "" if node.axis == Axis.CHILD else ".//"


def _negated(node: Node, text: str) -> str:
    return f"not({text})" if node.is_negated else text
