"""Document type definitions: which elements may stand in which, and what attributes they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from matchyard.engines.twigs.workload.dtd import declarations
from matchyard.engines.twigs.workload.dtd.declarations import NAME, Declared
from matchyard.errors import UsageError

_TOKEN = re.compile(rf"\s*([(),|?*+]|{NAME})")
_ATTRIBUTE = re.compile(
    rf"\s*({NAME})\s*(NOTATION\s*)?(\([^)]*\)|{NAME})\s*"
    r"(#REQUIRED|#IMPLIED|#FIXED\s*)?(\"[^\"]*\"|'[^']*')?\s*"
)


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
    missing: tuple[str, ...]  # what it includes and was not read

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
        name: _element(name, model, declared.attributes.get(name, []))
        for name, model in declared.models.items()
    }
    return Dtd(elements, declared.missing)


def _element(name: str, model: str, attribute_lists: list[str]) -> Element:
    attributes: dict[str, Attribute] = {}
    for text in attribute_lists:
        for attribute in _attributes(name, text):
            attributes.setdefault(attribute.name, attribute)
    tokens = _tokens(name, model)
    found = tuple(attributes.values())
    if tokens in (["EMPTY"], ["ANY"]):
        return Element(name, tokens[0], (), None, found)
    if "#PCDATA" in tokens:
        names = [token for token in tokens if token not in ("#PCDATA", *"()|*+?,")]
        return Element(name, "mixed", tuple(dict.fromkeys(names)), None, found)
    particle, rest = _particle(name, tokens)
    if rest or particle.kind == "name":
        raise UsageError(f"element {name!r}: not a content model: {' '.join(model.split())!r}")
    return Element(name, "children", tuple(dict.fromkeys(names_in(particle))), particle, found)


def names_in(part: Particle) -> list[str]:
    """The names in a content model, in its order."""
    if part.kind == "name":
        return [part.name]
    return [name for inner in part.parts for name in names_in(inner)]


def _tokens(name: str, model: str) -> list[str]:
    """The signs and names of a content model."""
    tokens, at, model = [], 0, model.rstrip()
    while at < len(model):
        found = _TOKEN.match(model, at)
        if found is None:
            raise UsageError(f"element {name!r}: not a content model: {model[at : at + 20]!r}")
        tokens.append(found[1])
        at = found.end()
    return tokens


def _particle(name: str, tokens: list[str]) -> tuple[Particle, list[str]]:
    """The first part of a model, and what comes after it."""
    if not tokens or tokens[0] in ",|)?*+":
        raise UsageError(f"element {name!r}: expected a name or '(' in its content model")
    if tokens[0] != "(":
        occurs, rest = _occurs(tokens[1:])
        return Particle("name", tokens[0], (), occurs), rest
    parts, signs, rest = [], set(), tokens
    while True:
        part, rest = _particle(name, rest[1:])
        parts.append(part)
        sign = rest[0] if rest else ""
        if sign == ")":
            break
        signs.add(sign)
        if sign not in (",", "|") or len(signs) > 1:
            raise UsageError(f"element {name!r}: expected ')' or one kind of ',' and '|'")
    occurs, rest = _occurs(rest[1:])
    return Particle("choice" if "|" in signs else "sequence", "", tuple(parts), occurs), rest


def _occurs(tokens: list[str]) -> tuple[str, list[str]]:
    if tokens and tokens[0] in "?*+":
        return tokens[0], tokens[1:]
    return "", tokens


def _attributes(element: str, text: str) -> list[Attribute]:
    found, at = [], 0
    while at < len(text):
        one = _ATTRIBUTE.match(text, at)
        if one is None or not (one[4] or one[5]):
            part = " ".join(text[at:].split())[:30]
            raise UsageError(f"element {element!r}: not an attribute: {part!r}")
        name, notation, kind = one[1], one[2], one[3]
        values: tuple[str, ...] = ()
        if kind.startswith("("):
            values = tuple(value.strip() for value in kind[1:-1].split("|"))
            kind = "NOTATION" if notation else "choice"
        found.append(Attribute(name, kind, values, one[4] == "#REQUIRED"))
        at = one.end()
    return found
