"""MEANING: the definition of a match, in plain Python. Every algorithm is tested against it.

Where the nodes of a twig hold in a document is said in `nodes`.
"""

from __future__ import annotations

from matchyard.engines.twigs.language import Document, Node, Subscription
from matchyard.engines.twigs.language.model import DOCUMENT
from matchyard.engines.twigs.oracle.elements import Element, Read, read
from matchyard.engines.twigs.oracle.explanation import explain_match, explain_miss
from matchyard.engines.twigs.oracle.nodes import find_parents


def is_match(subscription: Subscription, document: Document | Read) -> bool:
    """A twig matches when one of its trees is in the document.

    >>> from matchyard.engines.twigs.language import parse
    >>> is_match(parse("/a//c[.//d]/e"), "<a><c><d/></c><c><e/></c></a>")
    False
    """
    elements = read(document).elements
    return any(is_tree_match(tree, elements) for tree in subscription.trees)


def is_tree_match(tree: tuple[Node, ...], elements: list[Element]) -> bool:
    """A tree is in a document when all its top nodes hold, seen from the document."""
    return all((DOCUMENT in find_parents(top, elements)) != top.is_negated for top in tree)


def explain(subscription: Subscription, document: Document | Read) -> str:
    """Why it matches, or how far it got and where.

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
