"""The declarations of a document type definition, with everything included and replaced.

Parameter entities are replaced where they are used, files that a definition includes by a relative
path are read, and conditional sections taken or left. Nothing is fetched: what is included by an
address, or is not there, is listed as `missing`, and the rest is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from matchyard.errors import UsageError

NAME = r"[^\s()|,?*+%;\"'<>\[\]]+"
_REFERENCE = re.compile(rf"%({NAME});")
_KIND = re.compile(r"<!([A-Z]*)")
_NAMED = re.compile(rf"\s*({NAME})\s*(.*)", re.DOTALL)
_ENTITY = re.compile(
    rf"\s*(%\s+)?({NAME})\s*(PUBLIC|SYSTEM)?((?:\s*(?:\"[^\"]*\"|'[^']*'))+)(\s*NDATA.*)?\s*$",
    re.DOTALL,
)
_LITERAL = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_CODE = re.compile(r"&#(?:x([0-9a-fA-F]+)|([0-9]+));")
_PIECE = re.compile(r"\"[^\"]*\"|'[^']*'|>")
_EDGE = re.compile(r"<!\[|\]\]>")
_MOST_EXPANDED = 10_000_000  # characters; the largest real definitions have a tenth of that


class Declared(NamedTuple):
    """What a definition declares: of each element its content model, and its attributes."""

    models: dict[str, str]
    attributes: dict[str, list[str]]
    missing: tuple[str, ...]  # what is included and was not read


class _Entity(NamedTuple):
    """A parameter entity: its text, or where its text is."""

    text: str | None
    system: str | None
    folder: Path | None  # what `system` is relative to


class _Source(NamedTuple):
    """A text that is being read, and what it is called in messages."""

    text: str
    place: str
    folder: Path | None

    def refusal(self, at: int, message: str) -> UsageError:
        line = self.text.count("\n", 0, at) + 1
        return UsageError(f"{self.place}, line {line}: {message}")

    def after(self, ending: str, at: int) -> int:
        """The place after the next `ending`."""
        found = self.text.find(ending, at)
        if found < 0:
            raise self.refusal(at, f"expected {ending!r} before the end")
        return found + len(ending)


def read(text: str, place: str, folder: Path | None) -> Declared:
    """The declarations in a text; `folder` is where it includes files from."""
    reader = _Reader()
    reader.read(_Source(text, place, folder))
    return Declared(reader.models, reader.attributes, tuple(reader.missing))


def text_of(path: Path) -> str:
    """The text of a file; names that are not UTF-8 are not readable, but do not stop the rest."""
    return path.read_bytes().decode("utf-8-sig", "replace")


class _Reader:
    """What was declared so far; the first declaration of an entity or element is the one kept."""

    def __init__(self) -> None:
        self.entities: dict[str, _Entity] = {}
        self.models: dict[str, str] = {}
        self.attributes: dict[str, list[str]] = {}
        self.missing: dict[str, None] = {}
        self.including: list[str] = []

    def read(self, source: _Source) -> None:
        """Declarations one after the other; `at` is the place of the next."""
        text, at, n_sections = source.text, 0, 0
        while (at := _skip_space(text, at)) < len(text):
            if text.startswith("<!--", at):
                at = source.after("-->", at + 4)
            elif text.startswith("<?", at):
                at = source.after("?>", at)
            elif text.startswith("<![", at):
                at, is_included = self._enter_section(source, at)
                n_sections += is_included
            elif n_sections and text.startswith("]]>", at):
                at, n_sections = at + 3, n_sections - 1
            elif text.startswith("<!", at):
                at = self._declare(source, at)
            elif reference := _REFERENCE.match(text, at):
                self._include(source, at, reference[1])
                at = reference.end()
            else:
                found = text[at : at + 20].split("\n")[0]
                raise source.refusal(at, f"not a declaration: {found!r}")
        if n_sections:
            raise source.refusal(at, "a conditional section does not end")

    def _enter_section(self, source: _Source, at: int) -> tuple[int, bool]:
        """The place after the head of a section that is included, or after all of one that is not."""
        place = source.after("[", at + 3)
        keyword = self._expand(source, at, source.text[at + 3 : place - 1]).strip()
        if keyword == "INCLUDE":
            return place, True
        if keyword != "IGNORE":
            raise source.refusal(at, f"a section is INCLUDE or IGNORE, not {keyword!r}")
        n_open = 1
        while n_open:
            edge = _EDGE.search(source.text, place)
            if edge is None:
                raise source.refusal(at, "a conditional section does not end")
            n_open += 1 if edge[0] == "<![" else -1
            place = edge.end()
        return place, False

    def _include(self, source: _Source, at: int, name: str) -> None:
        """Read the declarations in a parameter entity."""
        entity = self._entity(source, at, name)
        if name in self.including:
            raise source.refusal(at, f"the entity %{name}; includes itself")
        self.including.append(name)
        if entity.text is not None:
            self.read(_Source(entity.text, f"%{name};", entity.folder))
        elif (inner := _included(entity)) is not None:
            self.read(inner)
        else:
            self.missing[entity.system or name] = None
        self.including.pop()

    def _declare(self, source: _Source, at: int) -> int:
        """Keep a declaration; the place after it."""
        found = _KIND.match(source.text, at)
        kind = found[1] if found else ""
        start = at + 2 + len(kind)
        end = next(
            (one.start() for one in _PIECE.finditer(source.text, start) if one[0] == ">"), None
        )
        if end is None:
            raise source.refusal(at, "a declaration does not end")
        body = source.text[start:end]
        if kind == "ENTITY":
            self._declare_entity(source, at, body)
        elif kind in ("ELEMENT", "ATTLIST"):
            named = _NAMED.match(self._expand(source, at, body))
            if named is None:
                raise source.refusal(at, f"<!{kind} without a name")
            if kind == "ELEMENT":
                self.models.setdefault(named[1], named[2])
            else:
                self.attributes.setdefault(named[1], []).append(named[2])
        elif kind != "NOTATION":
            raise source.refusal(at, f"not a declaration: '<!{kind}'")
        return end + 1

    def _declare_entity(self, source: _Source, at: int, body: str) -> None:
        """Keep a parameter entity; general ones stand in documents, not here."""
        found = _ENTITY.match(body)
        if found is None:
            raise source.refusal(at, "not an entity: expected a name and a text or file")
        if not found[1] or found[2] in self.entities:
            return
        literals = [one or other for one, other in _LITERAL.findall(found[4])]
        if found[3]:
            has_file = len(literals) == (2 if found[3] == "PUBLIC" else 1)
            entity = _Entity(None, literals[-1] if has_file else None, source.folder)
        else:
            value = self._expand(source, at, literals[0], "")
            entity = _Entity(_CODE.sub(_character, value), None, source.folder)
        self.entities[found[2]] = entity

    def _expand(self, source: _Source, at: int, text: str, around: str = " ") -> str:
        """A text with its parameter entities replaced, each with a space around it."""

        def value(found: re.Match[str]) -> str:
            return around + (self._entity(source, at, found[1]).text or "") + around

        for _ in range(100):
            if not _REFERENCE.search(text):
                return text
            text = _REFERENCE.sub(value, text)
            if len(text) > _MOST_EXPANDED:
                break
        raise source.refusal(at, "parameter entities refer to themselves, or become too long")

    def _entity(self, source: _Source, at: int, name: str) -> _Entity:
        if name not in self.entities:
            raise source.refusal(at, f"the entity %{name}; is not declared")
        return self.entities[name]


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16) if found[1] else int(found[2]))


def _included(entity: _Entity) -> _Source | None:
    """The file of an entity; None for addresses, absolute paths and what is not there, or only as
    the text of a link: a path."""
    if not entity.system or entity.folder is None or re.match(r"/|\w+:", entity.system):
        return None
    path = entity.folder / entity.system
    if not path.is_file():
        return None
    text = text_of(path)
    is_link = bool(text.strip()) and "<" not in text and "%" not in text
    return None if is_link else _Source(text, str(path), path.parent)
