"""Entities that a document declares itself: how much they expand to, and whether all is declared.

    <!DOCTYPE book SYSTEM "book.dtd" [ <!ENTITY app "KWrite"> <!ENTITY title "&app; for you"> ]>

External entities are never fetched, so that whatever a DTD elsewhere declares is undefined.
"""

from __future__ import annotations

import re

PREDEFINED = ("lt", "gt", "amp", "apos", "quot")
REFERENCE = re.compile("&([^;&]+);")  # without a second &: a value may consist of nothing else
MOST_NESTED = 64  # entities within each other; expat takes stack for each, and has no limit


class NestingError(ValueError):
    """An entity that contains itself, or too many within each other."""


class Entities:
    """The general entities of one document; a value is None where it is elsewhere or no XML."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self.external: set[str] = set()
        self._nesting: dict[str, int] = {}  # entities within each other, itself included
        self._users: dict[str, list[str]] = {}  # entities that refer to a name
        self._sizes: dict[str, int] = {}
        self._undefined: dict[str, str | None] = {}
        self._fetched: dict[str, bool] = {}

    def declare(self, name: str, value: str | None, is_external: bool) -> None:
        """The first declaration of a name is the one that counts; a NestingError where entities
        are too deep within each other then."""
        if name in self.values:
            return
        self.values[name] = value
        if is_external:
            self.external.add(name)
        inner = {other for other in REFERENCE.findall(value or "") if not is_character(other)}
        for other in inner:
            self._users.setdefault(other, []).append(name)
        self._deepen(name, 1 + max((self._nesting.get(other, 0) for other in inner), default=0))

    def _deepen(self, name: str, nesting: int) -> None:
        """An entity contains so many; those that refer to it contain one more. What is done for
        a reference is done once per level, and levels are few."""
        waiting = [(name, nesting)]
        while waiting:
            name, nesting = waiting.pop()
            if nesting <= self._nesting.get(name, 0):
                continue
            if nesting > MOST_NESTED:
                raise NestingError(
                    f"entity {name!r} is recursive, or has too many entities within each other; "
                    f"expected at most {MOST_NESTED}"
                )
            self._nesting[name] = nesting
            waiting += [(user, nesting + 1) for user in self._users.get(name, ())]

    def size(self, name: str) -> int:
        """Bytes to read when the entity is expanded, those of the entities within it included.

        Also of references that come to nothing, since reading them takes time.
        """
        if name not in self._sizes:
            value = self.values.get(name) or ""
            inner = sum(self.size(other) for other in REFERENCE.findall(value))
            self._sizes[name] = len(value.encode()) + inner
        return self._sizes[name]

    def undefined(self, text: str) -> str | None:
        """The name of an undefined entity that the text refers to, also by way of others."""
        for name in REFERENCE.findall(text):
            undefined = None if is_character(name) else self.undefined_in(name)
            if undefined is not None:
                return undefined
        return None

    def undefined_in(self, name: str) -> str | None:
        """The same for an entity. Its answer is kept, since each tag in an entity asks again."""
        if name not in self.values:
            return name
        if name not in self._undefined:
            self._undefined[name] = self.undefined(self.values[name] or "")
        return self._undefined[name]

    def needs_external(self, name: str) -> bool:
        """Is the entity, or one within it, elsewhere? In an attribute that is an error."""
        if name not in self._fetched:
            inner = REFERENCE.findall(self.values.get(name) or "")
            self._fetched[name] = name in self.external or any(map(self.needs_external, inner))
        return self._fetched[name]


def is_character(name: str) -> bool:
    """Does `&name;` stand for a character, whatever a document declares?"""
    return name[0] == "#" or name in PREDEFINED
