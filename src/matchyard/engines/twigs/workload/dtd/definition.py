"""Document type definitions: the content models and the attributes of elements."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.parsers.expat import model as expat

from matchyard.engines.twigs.workload.dtd import declarations
from matchyard.engines.twigs.workload.dtd.declarations import Declared, Model
from matchyard.errors import UsageError

_OCCURS = {
    expat.XML_CQUANT_NONE: "",
    expat.XML_CQUANT_OPT: "?",
    expat.XML_CQUANT_REP: "*",
    expat.XML_CQUANT_PLUS: "+",
}
_KINDS = {
    expat.XML_CTYPE_NAME: "name",
    expat.XML_CTYPE_SEQ: "sequence",
    expat.XML_CTYPE_CHOICE: "choice",
}


class Particle(NamedTuple):
    """A part of a content model: a name, or parts in sequence or by choice."""

    kind: str  # "name", "sequence" or "choice"
    name: str
    parts: tuple[Particle, ...]
    occurs: str  # "" (once), "?", "*" or "+"


class Attribute(NamedTuple):
    """An attribute of an element."""

    name: str
    kind: str  # CDATA, ID, IDREF, NMTOKEN, …, or "choice" and "NOTATION" of the values
    values: tuple[str, ...]
    is_required: bool


class Element(NamedTuple):
    """An element: its content and its attributes."""

    name: str
    content: str  # "EMPTY", "ANY", "mixed" or "children"
    names: tuple[str, ...]  # that may stand in it, in the order of its model
    model: Particle | None  # of "children"
    attributes: tuple[Attribute, ...]


class Dtd(NamedTuple):
    """A document type definition."""

    elements: dict[str, Element]
    missing: tuple[str, ...]  # files that it includes and that were not read

    def children(self, name: str) -> list[str]:
        """The declared elements that may stand in an element."""
        element = self.elements[name]
        if element.content == "ANY":
            return list(self.elements)
        return [child for child in element.names if child in self.elements]

    def tops(self) -> list[str]:
        """The elements that no other one names in its content."""
        inside = {name for one in self.elements.values() for name in one.names if name != one.name}
        return [name for name in self.elements if name not in inside]


def read_file(path: str | Path) -> Dtd:
    """The definition in a file, and in the files that it includes."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such DTD")
    return _made_of(declarations.read(declarations.text_of(path), str(path), path.parent))


def read_text(text: str) -> Dtd:
    """The definition in a text, which includes no files.

    >>> read_text("<!ELEMENT a (b*, c?)> <!ELEMENT b EMPTY> <!ELEMENT c (#PCDATA)>").children("a")
    ['b', 'c']
    """
    return _made_of(declarations.read(text, "DTD", None))


def _made_of(declared: Declared) -> Dtd:
    elements = {
        name: _element(name, model, declared.attributes.get(name, {}))
        for name, model in declared.models.items()
    }
    return Dtd(elements, declared.missing)


def _element(name: str, model: Model, kinds: dict[str, tuple[str, bool]]) -> Element:
    attributes = tuple(_attribute(one, *about) for one, about in kinds.items())
    kind, _, _, parts = model
    if kind in (expat.XML_CTYPE_EMPTY, expat.XML_CTYPE_ANY):
        content = "EMPTY" if kind == expat.XML_CTYPE_EMPTY else "ANY"
        return Element(name, content, (), None, attributes)
    if kind == expat.XML_CTYPE_MIXED:
        names = dict.fromkeys(part[2] for part in parts)
        return Element(name, "mixed", tuple(names), None, attributes)
    particle = _particle(model)
    names = dict.fromkeys(_names_in(particle))
    return Element(name, "children", tuple(names), particle, attributes)


def _particle(model: Model) -> Particle:
    kind, quantity, name, parts = model
    return Particle(_KINDS[kind], name or "", tuple(map(_particle, parts)), _OCCURS[quantity])


def _names_in(part: Particle) -> list[str]:
    """The names in a content model, in its order."""
    if part.kind == "name":
        return [part.name]
    return [name for inner in part.parts for name in _names_in(inner)]


def _attribute(name: str, kind: str, is_required: bool) -> Attribute:
    """An attribute; expat writes choices as `(a|b)` and `NOTATION(a|b)`."""
    word, bracket, values = kind.removesuffix(")").partition("(")
    if not bracket:
        return Attribute(name, kind, (), is_required)
    return Attribute(name, word or "choice", tuple(values.split("|")), is_required)
