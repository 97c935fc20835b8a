"""The texts that the scanner writes instead of references to entities, if the meaning is the same.

XML wants every entity to be well-formed by itself: `<!ENTITY b "&#60;b"> <!ENTITY e "&b;/>">` is
wrong, although `<b/>` is right. An entity is therefore replaced only if it is *whole* without the
references in it, if all entities that it refers to are whole, and if no reference is inside a tag,
where quotes in an entity would not count as quotes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from matchyard.engines.twigs.language.model import is_name
from matchyard.engines.twigs.language.options import Options
from matchyard.engines.twigs.xml.entities import REFERENCE, Entities, is_character
from matchyard.engines.twigs.xml.expat import signals
from matchyard.errors import XmlError

_MARKUP = re.compile("[<&]|]]>")  # markup, or the end of a section
_TAG = re.compile(r"""<(?:"[^"]*"|'[^']*'|[^"'>])*>""")  # in a whole text
_SPECIAL = re.compile(r"<[!?]|\r")  # `&e;` in a comment is no reference; line ends change
_ANY_DEPTH = Options(max_depth=1 << 30)
_KEPT_CHARACTERS = 1 << 10  # results for shorter texts are kept: many documents declare the same


class Contents:
    """The contents of the entities of one document."""

    def __init__(self, entities: Entities, skips: bool) -> None:
        self.entities, self._skips = entities, skips
        self._contents: dict[str, str | None] = {}

    def content(self, name: str) -> str | None:
        """The text to write instead of a reference to an entity; it has only references to characters
        and undefined entities. None if expat has to expand the entity."""
        if name not in self._contents:
            self._contents[name] = self._expanded(name)
        return self._contents[name]

    def plain(self, name: str) -> str | None:
        """The plain text of an entity, without undefined entities in it, for texts and attributes;
        None if it has markup."""
        content = None if self.entities.needs_external(name) else self.content(name)
        if content is not None:
            content = REFERENCE.sub(self._without_undefined, content)
        return None if content is None or _MARKUP.search(content) else content

    def _expanded(self, name: str) -> str | None:
        if name in self.entities.external:
            return "" if self._skips else None
        value = self.entities.values[name]
        if value is None or _SPECIAL.search(value) or not _is_whole_alone(value):
            return None
        parts = REFERENCE.split(value)
        for i in range(1, len(parts), 2):
            inner: str | None = f"&{parts[i]};"
            if not is_character(parts[i]) and parts[i] in self.entities.values:
                inner = self.content(parts[i])
            if inner is None:
                return None
            parts[i] = inner
        return "".join(parts)

    def _without_undefined(self, reference: re.Match[str]) -> str:
        return reference[0] if is_character(reference[1]) else ""


def _is_whole_alone(value: str) -> bool:
    """True if the value is whole whatever its references stand for, and no tag has a reference."""
    names = [name for name in REFERENCE.findall(value) if not is_character(name)]
    if not names:
        return _is_whole(value)
    if not all(map(is_name, names)) or not _is_whole(REFERENCE.sub(_without_entity, value)):
        return False
    in_tags = (name for tag in _TAG.findall(value) for name in REFERENCE.findall(tag))
    return all(map(is_character, in_tags))


def _without_entity(reference: re.Match[str]) -> str:
    """Replace a reference by a space; an empty text could join its neighbours: `&am&e;p;`."""
    return reference[0] if is_character(reference[1]) else " "


def _is_whole(content: str) -> bool:
    """True if the elements that open in a text close in it, and the other way round."""
    if not _MARKUP.search(content):
        return True
    return _read_kept(content) if len(content) <= _KEPT_CHARACTERS else _read(content)


def _read(content: str) -> bool:
    try:
        signals(f"<x>{content}</x>", _ANY_DEPTH)
    except XmlError:
        return False
    return True


_read_kept = lru_cache(4096)(_read)
