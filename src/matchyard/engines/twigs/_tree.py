"""A document as a list of its elements, for the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from matchyard.engines.twigs._coded import DOCUMENT
from matchyard.engines.twigs.language import Document
from matchyard.errors import ParseError


@dataclass(slots=True)
class Element:
    """One element; elements have numbers in the order in which they open."""

    parent: int  # its number, DOCUMENT for the root
    name: str
    attributes: dict[str, str]
    line: int
    end: int = 0  # the number after those of the elements in it
    texts: list[str] = field(default_factory=list)  # directly in it, apart by what is between them
    value: str = ""  # all text in it, also in elements in it


def read_elements(document: Document) -> list[Element]:
    """All elements of a document.

    >>> [element.name for element in read_elements("<a><b/><c>text</c></a>")]
    ['a', 'b', 'c']
    """
    reader = _Reader()
    try:
        reader.parser.Parse(document, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise ParseError(
            f"not XML: line {error.lineno}, column {error.offset + 1}: {what}"
        ) from None
    return reader.elements


class _Reader:
    """What expat calls while it reads."""

    def __init__(self) -> None:
        self.elements: list[Element] = []
        self.open: list[int] = [DOCUMENT]
        self.text: list[str] = []  # since the last tag, comment or processing instruction
        self.all_text: list[str] = []
        self.n_texts_before: list[int] = []  # in `all_text` as each open element opened
        self.parser = expat.ParserCreate()
        self.parser.UseForeignDTD(True)  # entities are checked before; undefined ones are nothing
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.close
        self.parser.CharacterDataHandler = self.text.append
        self.parser.CommentHandler = lambda text: self.end_text()
        self.parser.ProcessingInstructionHandler = lambda target, data: self.end_text()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.end_text()
        line = self.parser.CurrentLineNumber
        self.elements.append(Element(self.open[-1], name, attributes, line))
        self.open.append(len(self.elements) - 1)
        self.n_texts_before.append(len(self.all_text))

    def close(self, name: str) -> None:
        self.end_text()
        element = self.elements[self.open.pop()]
        element.end = len(self.elements)
        element.value = "".join(self.all_text[self.n_texts_before.pop() :])

    def end_text(self) -> None:
        if self.text and self.open[-1] != DOCUMENT:
            text = "".join(self.text)
            self.elements[self.open[-1]].texts.append(text)
            self.all_text.append(text)
        self.text.clear()
