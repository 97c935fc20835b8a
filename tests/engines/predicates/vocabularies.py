"""Small vocabularies made by hand, and what they make of a value, in plain Python."""

from __future__ import annotations

import bisect
import ipaddress
import math
import re
from typing import Any, NamedTuple

import numpy as np

from matchyard.engines.predicates.encoder.events.pattern_index import INVERTED, WILDCARD, build
from matchyard.engines.predicates.encoder.layout import Kind, Mode, Vocabulary
from matchyard.kernels.strings import Interner, Names, freeze
from tests.engines.predicates.number_pairs import choose_mode, number_codes, split


class Slot(NamedTuple):
    """A name, a way to read it, and the constants or patterns that are asked for."""

    name: str
    kind: Kind
    constants: list[Any]
    is_ordered: bool = True


def names_of(words: list[str]) -> Names:
    """Words with ids in the given order."""
    data = [word.encode() for word in words]
    start = np.zeros(len(data) + 1, np.int64)
    np.cumsum([len(one) for one in data], out=start[1:])
    interner = Interner()
    interner.intern(np.frombuffer(b"".join(data), np.uint8), start)
    names = interner.names()
    return freeze(names._replace(text_start=names.text_start.astype(np.int32)))


def make(slots: list[Slot]) -> tuple[Vocabulary, list[Slot], list[str]]:
    """A vocabulary, its slots in order, and its texts."""
    words = sorted({slot.name for slot in slots})
    slots = sorted(slots, key=lambda slot: (words.index(slot.name), slot.kind))
    texts = sorted(
        {word[1] if isinstance(word, tuple) else word
         for slot in slots if slot.kind >= Kind.TEXT for word in slot.constants},
        key=str.encode,
    )  # fmt: skip
    modes, domain, rests, domain_start = [], [], [], [0]
    for slot in slots:
        mode, pairs = int(slot.is_ordered), []
        if slot.kind == Kind.NUMBER:
            pairs = sorted({split(one) for one in slot.constants})
            mode = int(
                choose_mode(*(np.array(one) for one in (zip(*pairs) if pairs else ([], []))))
            )
            if mode != Mode.RANKED:
                pairs = []
        elif slot.kind >= Kind.PATTERN:
            pairs = [(0.0, texts.index(text) << 2 | flags) for flags, text in slot.constants]
        modes.append(mode)
        domain += [number for number, _ in pairs]
        rests += [rest for _, rest in pairs]
        domain_start.append(len(domain))
    known = names_of(texts)
    kind = np.array([slot.kind for slot in slots], np.uint8)
    slot_start = np.searchsorted([words.index(s.name) for s in slots], range(len(words) + 1))
    starts, rest = np.array(domain_start, np.int64), np.array(rests, np.int64)
    made = Vocabulary(
        names_of(words), known, slot_start.astype(np.int32), kind, np.array(modes, np.uint8),
        starts, np.array(domain, np.float64), rest, *build(known, kind, starts, rest),
    )  # fmt: skip
    return freeze(made), slots, texts


def holds(flags: int, pattern: str, text: str) -> bool:
    """Does a text satisfy a pattern?"""
    if flags & WILDCARD:
        parts = re.findall(r"\\.|[^\\]", pattern, re.DOTALL)
        regex = "".join(".*" if part == "*" else re.escape(part[-1]) for part in parts)
        found = re.fullmatch(regex, text, re.DOTALL) is not None
    else:
        found = pattern in text
    return found != bool(flags & INVERTED)


def read(kind: Kind, text: str) -> str | None:
    """A text as a slot reads it."""
    if kind == Kind.ADDRESS:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return None
        return f"{address.version}{int(address):0{8 if address.version == 4 else 32}x}"
    if kind in (Kind.FOLDED, Kind.FOLDED_REVERSED, Kind.FOLDED_PATTERN):
        text = text.casefold()
    return text[::-1] if kind in (Kind.REVERSED, Kind.FOLDED_REVERSED) else text


def codes(slot: Slot, value: Any, texts: list[str]) -> list[int]:
    """The codes of one value in one slot."""
    if slot.kind == Kind.PRESENT:
        return [0]
    if slot.kind == Kind.OTHER:
        is_other = value is None or isinstance(value, bool)
        return [(False, True, None).index(value)] if is_other else []
    if slot.kind == Kind.NUMBER:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return []
        pairs = sorted({split(one) for one in slot.constants})
        domain = [np.array(one) for one in (zip(*pairs) if pairs else ([], []))]
        domain = [domain[0].astype(float), domain[1].astype(np.int64)]
        number, rest = split(value)
        return number_codes(
            choose_mode(*domain), np.array([number]), np.array([rest], np.int64), *domain
        ).tolist()
    text = read(slot.kind, value) if isinstance(value, str) else None
    if text is None:
        return []
    if slot.kind >= Kind.PATTERN:
        return [i for i, one in enumerate(slot.constants) if holds(*one, text)]
    place = bisect.bisect_left([one.encode() for one in texts], text.encode())
    if place < len(texts) and texts[place] == text:
        return [2 * place + 1]
    return [2 * place if slot.is_ordered else -1]
