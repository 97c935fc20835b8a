"""Explain in words why a twig matches a document, or how far it got and at which element.

If a node does not hold, the explanation takes the element with its name that has most of the node
and its descendants, and continues with a child that is missing there. The answer thus names a
missing node and the element that lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from matchyard.engines.twigs.language.formatting import (
    format_child,
    format_comparison,
    format_source,
    format_tree,
    quote,
)
from matchyard.engines.twigs.language.model import (
    ANY,
    DOCUMENT,
    ROOT,
    Axis,
    Node,
    Source,
    Test,
    Twig,
)
from matchyard.engines.twigs.language.normal_form import trunk
from matchyard.engines.twigs.oracle.elements import Element
from matchyard.engines.twigs.oracle.nodes import find_parents, find_places, find_texts

_MOST_TEXTS = 3  # of a test are shown…
_MOST_CHARACTERS = 40  # …and of each text
_MOST_PARTS = 5  # of an element are shown


class _Miss(NamedTuple):
    """The reason why a tree does not hold."""

    n_found: int  # nodes of the tree
    text: str


def explain_match(tree: tuple[Node, ...], elements: list[Element]) -> str:
    """Name the tree that matches, and an element at the end of each of its paths."""
    ends = [_end(top, elements) for top in tree if not top.is_negated and top != ROOT]
    where = ", ".join(_named(place, elements) for place in ends)
    return f"match: {format_tree(tree)}{': ' if where else ''}{where}"


def explain_miss(twig: Twig, elements: list[Element]) -> str:
    """Name the missing node of the tree that got furthest, and the element that lacks it."""
    if not twig.trees:
        return "no match: the twig is in no document"
    misses = [_miss_of(tree, elements) for tree in twig.trees]
    furthest = max(misses, key=lambda miss: miss.n_found)
    if len(misses) == 1:
        return f"no match: {furthest.text}"
    tree = format_tree(twig.trees[misses.index(furthest)])
    return f"no match with any of {len(misses)} trees; the furthest got {tree}: {furthest.text}"


def _miss_of(tree: tuple[Node, ...], elements: list[Element]) -> _Miss:
    counts = _count_below(tree, elements)
    return _Miss(counts[DOCUMENT], _missing(tree, DOCUMENT, elements))


def _missing(children: tuple[Node, ...], at: int, elements: list[Element]) -> str:
    """Name the node that is missing at an element, or at the document."""
    holds = {node: (at in find_parents(node, elements)) != node.is_negated for node in children}
    node = next(node for node in children if not holds[node])
    where = _named(at, elements)
    if node.is_negated:
        return (
            f"{where} has {format_child(replace(node, is_negated=False))}, which the twig excludes"
        )
    if isinstance(node.name, Test):
        return f"{where} {_differing(node.name, elements[at])}"
    reached = [place for place in _below(node, at, elements) if _has_name(node, elements[place])]
    if reached:
        counts = _count(node, elements)
        return _missing(node.children, max(reached, key=lambda place: counts[place]), elements)
    has = _listed([child for child in children if holds[child] and not child.is_negated])
    if at == DOCUMENT and node.axis == Axis.CHILD:
        return f"the root is {elements[0].name}, not {node.name}"
    name = "element" if node.name == ANY else node.name
    place = " as a child" if node.axis == Axis.CHILD else " below it"
    return f"{where} has {has}no {name}{'' if at == DOCUMENT else place}"


def _count(node: Node, elements: list[Element]) -> list[int]:
    """Per element, how many nodes hold among a node and its descendants.

    It is 0 for another name, and 1 for an attribute or text that fails the comparison.
    """
    if isinstance(node.name, Test):
        test, places = node.name, find_places(node, elements)
        return [(find_texts(test, one) != []) + (at in places) for at, one in enumerate(elements)]
    below = _count_below(node.children, elements)
    return [_has_name(node, one) and 1 + below[at] for at, one in enumerate(elements)]


def _count_below(nodes: tuple[Node, ...], elements: list[Element]) -> list[int]:
    """Per element, the sum over `nodes` on their axes; the document comes last."""
    total = [0] * (len(elements) + 1)
    for node in nodes:
        if node.is_negated:
            counts = [1] * len(total)
            for at in find_parents(node, elements):
                counts[at] = 0  # -1 is the document
        else:
            counts = [*_count(node, elements), 0]
            if not isinstance(node.name, Test):
                counts = _best_below(node.axis, counts, elements)
        total = [before + more for before, more in zip(total, counts)]
    return total


def _best_below(axis: Axis, counts: list[int], elements: list[Element]) -> list[int]:
    """The highest count on the axis of each element; the document comes last."""
    best = [0] * len(counts)
    for at in range(len(elements) - 1, -1, -1):
        seen = counts[at] if axis == Axis.CHILD else max(counts[at], best[at])
        parent = elements[at].parent
        best[parent] = max(best[parent], seen)
    return best


def _below(node: Node, at: int, elements: list[Element]) -> Iterable[int]:
    """The elements on the axis of a node."""
    inside = range(at + 1, len(elements) if at == DOCUMENT else elements[at].end)
    if node.axis == Axis.DESCENDANT:
        return inside
    return (place for place in inside if elements[place].parent == at)


def _has_name(node: Node, element: Element) -> bool:
    return node.name in (ANY, element.name)


def _end(node: Node, elements: list[Element]) -> int:
    """The first element at the end of the main path of a node."""
    at, along = DOCUMENT, node
    while True:
        places = find_places(along, elements)
        at = next(place for place in _below(along, at, elements) if place in places)
        inner = trunk(along)
        if inner is None:
            return at
        along = inner


def _named(at: int, elements: list[Element]) -> str:
    """The path of an element, with its line; `article[3]` is the third child of that name."""
    if at == DOCUMENT:
        return "the document"
    steps, line = [], elements[at].line
    while at != DOCUMENT:
        one = elements[at]
        alike = [
            place
            for place, other in enumerate(elements)
            if other.parent == one.parent and other.name == one.name
        ]
        steps.append(one.name + (f"[{alike.index(at) + 1}]" if len(alike) > 1 else ""))
        at = one.parent
    return f"/{'/'.join(reversed(steps))} (line {line})"


def _listed(nodes: list[Node]) -> str:
    """List the nodes that are present, to be followed by a missing one."""
    if not nodes:
        return ""
    more = f" and {len(nodes) - _MOST_PARTS} more" if len(nodes) > _MOST_PARTS else ""
    return f"{', '.join(map(format_child, nodes[:_MOST_PARTS]))}{more}, but "


def _differing(test: Test, element: Element) -> str:
    """Show the texts that a test compares, and the comparison."""
    texts = find_texts(test, element)
    what, wanted = format_source(test), format_comparison(test).strip()
    if not texts:
        return f"has no {what}{f', expected {wanted}' if wanted else ''}"
    shown = [quote(_shorten(text)) for text in texts[:_MOST_TEXTS]]
    if len(texts) > _MOST_TEXTS:
        shown.append("…")
    what = "the value" if test.source == Source.VALUE else what
    return f"has {what} {', '.join(shown)}, not {wanted}"


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
