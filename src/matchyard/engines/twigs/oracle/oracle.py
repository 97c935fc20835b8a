"""MEANING: the definition of a match, in plain Python. Every algorithm is tested against it.

`nodes` defines at which elements the nodes of a twig hold.
"""

from __future__ import annotations

from matchyard.engines.twigs.language import Document, Node, Subscription
from matchyard.engines.twigs.language.model import DOCUMENT
from matchyard.engines.twigs.oracle.elements import Element, Read, read
from matchyard.engines.twigs.oracle.explanation import explain_match, explain_miss
from matchyard.engines.twigs.oracle.nodes import find_parents


def is_match(subscription: Subscription, document: Document | Read) -> bool:
    """True if the document has one of the trees of the twig.

    >>> from matchyard.engines.twigs.language import parse
    >>> is_match(parse("/a//c[.//d]/e"), "<a><c><d/></c><c><e/></c></a>")
    False
    """
    elements = read(document).elements
    return any(is_tree_match(tree, elements) for tree in subscription.trees)


def is_tree_match(tree: tuple[Node, ...], elements: list[Element]) -> bool:
    """True if all top nodes of the tree hold, seen from the document."""
    return all((DOCUMENT in find_parents(top, elements)) != top.is_negated for top in tree)


def explain(subscription: Subscription, document: Document | Read) -> str:
    """Explain why a twig matches, or how far it got and at which element.

    >>> from matchyard.engines.twigs.language import parse
    >>> explain(parse("/a//c[.//d]/e"), "<a><c><d/></c><c><e/></c></a>")
    'no match: /a/c[1] (line 1) has .//d, but no e as a child'
    """
    elements, fault = read(document)
    if fault is not None:
        return f"no match: skipped, line {fault.line}, column {fault.column}: {fault.reason}"
    for tree in subscription.trees:
        if is_tree_match(tree, elements):
            return explain_match(tree, elements)
    return explain_miss(subscription, elements)
