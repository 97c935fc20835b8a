"""Find the elements at which the nodes of a twig hold: the core of the definition of a match.

`values` defines when a text satisfies a test.
"""

from __future__ import annotations

from matchyard.engines.twigs.language.model import ANY, DOCUMENT, Axis, Node, Source, Test
from matchyard.engines.twigs.oracle.elements import Element
from matchyard.engines.twigs.oracle.values import satisfies


def find_parents(node: Node, elements: list[Element]) -> set[int]:
    """The elements, and DOCUMENT, on whose axis the node holds somewhere."""
    places = find_places(node, elements)
    if isinstance(node.name, Test):
        return places
    parents: set[int] = set()
    for place in places:
        parent = elements[place].parent
        while parent not in parents:
            parents.add(parent)
            if node.axis == Axis.CHILD or parent == DOCUMENT:
                break
            parent = elements[parent].parent
    return parents


def find_places(node: Node, elements: list[Element]) -> set[int]:
    """The elements at which the node holds, whatever is above them; or that satisfy the test."""
    test = node.name
    if isinstance(test, Test):
        return {
            place
            for place, element in enumerate(elements)
            if any(satisfies(text, test) for text in find_texts(test, element))
        }
    matching = {place for place, one in enumerate(elements) if test in (ANY, one.name)}
    for child in node.children:
        parents = find_parents(child, elements)
        matching = matching - parents if child.is_negated else matching & parents
    return matching


def find_texts(test: Test, element: Element) -> list[str]:
    """The texts of an element that a test compares."""
    if test.source == Source.ATTRIBUTE:
        return [value for name, value in element.attributes.items() if name == test.attribute]
    return element.texts if test.source == Source.TEXT else [element.value]
