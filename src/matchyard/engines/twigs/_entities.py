"""Entities that a document declares itself: how much they expand to, and what to.

    <!DOCTYPE book SYSTEM "book.dtd" [ <!ENTITY app "KWrite"> <!ENTITY title "&app; for you"> ]>

External entities are never fetched, so that whatever a DTD elsewhere declares is undefined.
"""

from __future__ import annotations

import re

PREDEFINED = ("lt", "gt", "amp", "apos", "quot")
REFERENCE = re.compile("&([^;]+);")
_MARKUP = re.compile("[<&]|]]>")  # what is more than text, or would end it


_DEEPEST = 64  # entities within each other; what is deeper is left to expat


class Entities:
    """The general entities of one document; a value is None where it is elsewhere or no XML."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self._external: set[str] = set()
        self._sizes: dict[str, int] = {}

    def declare(self, name: str, value: str | None, is_external: bool) -> None:
        """The first declaration of a name is the one that counts."""
        if name not in self.values:
            self.values[name] = value
            if is_external:
                self._external.add(name)

    def size(self, name: str) -> int:
        """Bytes to read when the entity is expanded, those of the entities within it included.

        Also of references that come to nothing, since reading them takes time.
        """
        if name not in self._sizes:
            self._sizes[name] = 0  # one that contains itself is refused where it is used
            value = self.values.get(name) or ""
            inner = sum(self.size(other) for other in REFERENCE.findall(value))
            self._sizes[name] = len(value.encode()) + inner
        return self._sizes[name]

    def undefined(self, text: str) -> str | None:
        """The name of an undefined entity that the text refers to, also by way of others."""
        seen: set[str] = set()
        waiting = [text]
        while waiting:
            for name in REFERENCE.findall(waiting.pop()):
                if name in seen or _is_character(name):
                    continue
                if name not in self.values:
                    return str(name)
                seen.add(name)
                waiting.append(self.values[name] or "")
        return None

    def plain(self, name: str) -> str | None:
        """The text that the entity stands for, undefined ones within it left out; None where it is
        no plain text."""
        if name in self._external:
            return None  # in an attribute it is an error
        content = self.content(name)
        if content is not None:
            content = REFERENCE.sub(self._without_undefined, content)
        return None if content is None or _MARKUP.search(content) else content

    def content(self, name: str) -> str | None:
        """What to write in place of a reference to an entity, in which only references to
        characters and to undefined entities are left; None where expat has to do that."""
        return self._expanded(name, ())

    def _expanded(self, name: str, within: tuple[str, ...]) -> str | None:
        value = "" if name in self._external else self.values[name]
        if value is None or "\r" in value or name in within or len(within) > _DEEPEST:
            return None
        parts = REFERENCE.split(value)
        for i in range(1, len(parts), 2):
            if _is_character(parts[i]) or parts[i] not in self.values:
                parts[i] = f"&{parts[i]};"
            elif (inner := self._expanded(parts[i], (*within, name))) is not None:
                parts[i] = inner
            else:
                return None
        return "".join(parts)

    def _without_undefined(self, reference: re.Match[str]) -> str:
        is_undefined = not _is_character(reference[1]) and reference[1] not in self.values
        return "" if is_undefined else reference[0]


def _is_character(name: str) -> bool:
    return name[0] == "#" or name in PREDEFINED
