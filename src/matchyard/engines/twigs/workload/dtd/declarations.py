"""The declarations of a document type definition, read by expat.

Expat reads a small document that includes the definition as a parameter entity, so that expat itself
replaces parameter entities and takes or leaves conditional sections. Files are included by relative
paths only. Nothing is fetched: an entity with an address, or without a file, counts as empty and is
listed as `missing`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from matchyard.errors import UsageError

# Expat skips declarations after a reference to an undeclared entity. It has skipped none if it
# reports the attribute `end`, which comes after the definition.
_DOCUMENT = '<!DOCTYPE x [<!ENTITY % {0} SYSTEM ""> %{0}; <!ATTLIST x end CDATA #IMPLIED>]><x/>'
_MOST_GROUPS = 500  # within each other; expat's C code is recursive, and crashes on many more
_MOST_ENTITIES = 20_000  # likewise, where each refers to the one before
_XML = re.compile(r"\A\s*<\?xml\s.*?\?>", re.DOTALL)  # expat wants an encoding in it
_ELSEWHERE = re.compile(r"/|\w+:")

Model = tuple[int, int, str | None, tuple[Any, ...]]  # kind, quantity, name and parts, by expat


class Declared(NamedTuple):
    """The declarations of a definition: models by element, and attributes by element."""

    models: dict[str, Model]
    attributes: dict[str, dict[str, tuple[str, bool]]]  # the kind by expat, and if it is required
    missing: tuple[str, ...]  # files that are included and were not read


class _Source(NamedTuple):
    """A text that is being read, and its name in messages."""

    text: str
    place: str
    folder: Path | None

    def checked(self) -> str:
        """The text for expat: without an XML declaration, and not so deep that expat would crash."""
        depth = deepest = 0
        for sign in re.findall(r"[()]", self.text):
            depth = depth + 1 if sign == "(" else max(0, depth - 1)
            deepest = max(deepest, depth)
        if deepest > _MOST_GROUPS:
            raise UsageError(f"{self.place}: more than {_MOST_GROUPS} groups within each other")
        if self.text.count("<!ENTITY") > _MOST_ENTITIES:
            raise UsageError(f"{self.place}: more than {_MOST_ENTITIES} entities")
        return _XML.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.text)

    def refusal(self, reason: str, line: int, column: int) -> UsageError:
        shown = "".join(self.text.split("\n")[line - 1 : line]).strip()
        if reason == expat.errors.XML_ERROR_SYNTAX and "%" in shown:
            reason += " (perhaps an entity that is not declared)"
        return UsageError(f"{self.place}, line {line}, column {column + 1}: {reason}: {shown:.60}")


def read(text: str, place: str, folder: Path | None) -> Declared:
    """The declarations in a text, which includes files from `folder`."""
    reader = _Reader(_Source(text, place, folder))
    return Declared(reader.models, reader.attributes, tuple(reader.missing))


def text_of(path: Path) -> str:
    """The text of a file; bytes that are not UTF-8 become replacement characters."""
    return path.read_bytes().decode("utf-8-sig", "replace")


class _Reader:
    """The declarations so far; the first declaration of an element or attribute counts."""

    def __init__(self, source: _Source) -> None:
        self.models: dict[str, Model] = {}
        self.attributes: dict[str, dict[str, tuple[str, bool]]] = {}
        self.missing: dict[str, None] = {}
        self._has_end = False
        parser = expat.ParserCreate()
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.ElementDeclHandler = self.models.setdefault
        parser.AttlistDeclHandler = self._declare_attribute
        parser.ExternalEntityRefHandler = self._include
        parser.SkippedEntityHandler = self._refuse_undeclared
        self._open = [(parser, source)]  # the document, then files within each other
        name = "definition"
        while name in source.text:  # the first declaration of a name counts
            name += "_"
        parser.Parse(_DOCUMENT.format(name), True)
        if not self._has_end:
            raise UsageError(f"{source.place}: refers to a parameter entity that is not declared")

    def _declare_attribute(
        self, element: str, name: str, kind: str, default: str | None, is_required: int
    ) -> None:
        if len(self._open) == 1:
            self._has_end = True
            return
        declared = self.attributes.setdefault(element, {})
        declared.setdefault(name, (kind, bool(is_required) and default is None))

    def _include(self, context: str, base: str | None, system: str | None, _: Any) -> int:
        """Read the definition, or a file that it includes."""
        outer, source = self._open[-1]
        if len(self._open) > 1:
            source = self._included(base, system or "")
        parser = outer.ExternalEntityParserCreate(context, "utf-8")
        if source.folder is not None:
            parser.SetBase(str(source.folder))
        self._open.append((parser, source))
        try:
            parser.Parse(source.checked().encode(), True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise source.refusal(reason, error.lineno, error.offset) from None
        self._open.pop()
        return 1

    def _included(self, base: str | None, system: str) -> _Source:
        """The file of an entity. A link that was copied as a text holds only a path."""
        if (
            base is not None
            and not _ELSEWHERE.match(system)
            and (path := Path(base, system)).is_file()
        ):
            text = text_of(path)
            if not text.strip() or "<" in text or "%" in text:
                return _Source(text, str(path), path.parent)
        self.missing[system] = None
        return _Source("", system, None)

    def _refuse_undeclared(self, name: str, is_parameter: bool) -> None:
        parser, source = self._open[-1]
        line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber
        raise source.refusal(f"the entity %{name}; is not declared", line, column)
