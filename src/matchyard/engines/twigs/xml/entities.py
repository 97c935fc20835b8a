"""The entities that a document declares: how much they expand to, and which names are undefined.

    <!DOCTYPE book SYSTEM "book.dtd" [ <!ENTITY app "KWrite"> <!ENTITY title "&app; for you"> ]>

External entities are never fetched. Entities that an external DTD declares are therefore undefined.
"""

from __future__ import annotations

import re

PREDEFINED = ("lt", "gt", "amp", "apos", "quot")
REFERENCE = re.compile("&([^;&]+);")  # without `&` inside: many `&` would take quadratic time
MOST_NESTED = 64  # entities within each other; expat uses stack for each, without a limit


class NestingError(ValueError):
    """An entity that contains itself, or too many within each other."""


class Entities:
    """The general entities of one document; a value is None if it is external or not XML."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self.external: set[str] = set()
        self._nesting: dict[str, int] = {}  # entities within each other, itself included
        self._users: dict[str, list[str]] = {}  # entities that refer to a name
        self._sizes: dict[str, int] = {}
        self._undefined: dict[str, str | None] = {}
        self._fetched: dict[str, bool] = {}

    def declare(self, name: str, value: str | None, is_external: bool) -> None:
        """Declare an entity; the first declaration of a name counts. Raises a NestingError if
        entities are nested too deeply."""
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
        """Raise the nesting of an entity, and of the entities that refer to it. Each reference is
        visited at most once per level, and levels are few."""
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
        """Bytes that the expansion of an entity reads, including those of the entities within it.

        References to empty entities count too, since reading them takes time.
        """
        if name not in self._sizes:
            value = self.values.get(name) or ""
            inner = sum(self.size(other) for other in REFERENCE.findall(value))
            self._sizes[name] = len(value.encode()) + inner
        return self._sizes[name]

    def undefined(self, text: str) -> str | None:
        """The name of an undefined entity that the text refers to, directly or indirectly."""
        for name in REFERENCE.findall(text):
            undefined = None if is_character(name) else self.undefined_in(name)
            if undefined is not None:
                return undefined
        return None

    def undefined_in(self, name: str) -> str | None:
        """The same for an entity. The result is kept, since each tag in an entity needs it again."""
        if name not in self.values:
            return name
        if name not in self._undefined:
            self._undefined[name] = self.undefined(self.values[name] or "")
        return self._undefined[name]

    def needs_external(self, name: str) -> bool:
        """True if the entity or one within it is external, which is an error in an attribute."""
        if name not in self._fetched:
            inner = REFERENCE.findall(self.values.get(name) or "")
            self._fetched[name] = name in self.external or any(map(self.needs_external, inner))
        return self._fetched[name]


def is_character(name: str) -> bool:
    """True if `&name;` stands for a character, whatever a document declares."""
    return name[0] == "#" or name in PREDEFINED
