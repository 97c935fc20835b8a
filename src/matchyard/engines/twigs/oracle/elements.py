"""A document as a list of its elements, for the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from matchyard.engines.twigs.language import Document
from matchyard.engines.twigs.language.model import DOCUMENT
from matchyard.engines.twigs.language.options import DEFAULTS, Options
from matchyard.engines.twigs.xml.expat import Signal, with_lines
from matchyard.errors import XmlError


@dataclass(slots=True)
class Element:
    """One element; elements have numbers in the order in which they open."""

    parent: int  # its number, DOCUMENT for the root
    name: str
    attributes: dict[str, str]
    line: int
    end: int = 0  # the number after those of the elements in it
    texts: list[str] = field(default_factory=list)  # directly in it, one by one
    all_texts: list[str] = field(default_factory=list, repr=False)  # of the whole document
    span: tuple[int, int] = (0, 0)  # its range in `all_texts`, with those of its descendants

    @property
    def value(self) -> str:
        """All text in the element and its descendants. It is not stored: ancestors repeat it."""
        return "".join(self.all_texts[slice(*self.span)])


class Read(NamedTuple):
    """A document that was read."""

    elements: list[Element]
    fault: XmlError | None = None  # why it was skipped; it has no elements then


def read(document: Document | Read, options: Options = DEFAULTS) -> Read:
    """All elements of a document, unless it was read before.

    >>> [element.name for element in read("<a><b/><c>text</c></a>").elements]
    ['a', 'b', 'c']
    """
    if isinstance(document, Read):
        return document
    return Read(_elements(*with_lines(document, options)))


def _elements(signals: list[Signal], lines: list[int]) -> list[Element]:
    elements: list[Element] = []
    around: list[int] = [DOCUMENT]
    texts: list[str] = []
    n_texts_before: list[int] = []  # as each open element opened
    for signal in signals:
        if len(signal) == 3:
            _, name, attributes = signal
            line = lines[len(elements)]
            elements.append(Element(around[-1], name, attributes, line, all_texts=texts))
            around.append(len(elements) - 1)
            n_texts_before.append(len(texts))
        elif signal[0] == "text":
            texts.append(signal[1])
            elements[around[-1]].texts.append(signal[1])
        else:
            element = elements[around.pop()]
            element.end = len(elements)
            element.span = (n_texts_before.pop(), len(texts))
    return elements
