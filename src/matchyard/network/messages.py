"""The messages of routers and clients as bytes. Numbers are big-endian, texts are UTF-8.

kind          content
1 packet      see `packet`
2 update      8 version, 2 tree, 1 flags (1 whole, 2 Bloom filters), then additions and removals: 4 their number,
              and for each 2 number of tags, 2 length of each tag, their text; or 24 bytes of a filter
3 link state  8 sequence, 8 incarnation, then the names of a router and of its neighbours: 2 their number, 2 length
              of each, their text
4 register    tags as in an update
5 withdraw    tags as in an update
6 forget      the name of a neighbour as in a link state
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from matchyard.network.packet import FILTER_BYTES, MOST_TAGS, PacketError, Reader
from matchyard.network.tables import TreeUpdate
from matchyard.routing import Descriptors, Update
from matchyard.routing.applications import Tags

_HEAD = struct.Struct(">QHB")
_LONG, _SHORT, _STATE = struct.Struct(">I"), struct.Struct(">H"), struct.Struct(">QQ")
_MOST_SEQUENCE = 1 << 62
_WHOLE, _FILTERS = 1, 2


class MessageKind(IntEnum):
    """The kind of a message."""

    PACKET = 1
    UPDATE = 2
    LINK_STATE = 3
    REGISTER = 4
    WITHDRAW = 5
    FORGET = 6


class LinkState(NamedTuple):
    """The neighbours of a router; a higher sequence is newer.
    The incarnation distinguishes routers that have used the same name."""

    name: str
    sequence: int
    incarnation: int
    neighbours: tuple[str, ...]

    def age(self) -> tuple[int, int]:
        """A sort key: of two link states of a router, the newer one has the higher age."""
        return self.sequence, self.incarnation

    def to_bytes(self) -> bytes:
        """The form on the wire.

        >>> state = LinkState("oslo", 3, 7, ("rome", "wien"))
        >>> LinkState.from_bytes(state.to_bytes()) == state
        True
        """
        head = _STATE.pack(self.sequence, self.incarnation)
        return head + texts_to_bytes((self.name, *self.neighbours))

    @classmethod
    def from_bytes(cls, data: bytes) -> LinkState:
        """Parse a link state; raise PacketError for other bytes."""
        reader = Reader(data, "a link state")
        sequence, incarnation = reader.numbers(_STATE, "head")
        names = texts_from(reader, "names")
        reader.check_end()
        if not names or sequence >= _MOST_SEQUENCE:
            raise PacketError(
                f"a link state {sequence} of {names[:1]}; expected a name, and 2^62 at most"
            )
        return cls(names[0], sequence, incarnation, tuple(names[1:]))


def texts_to_bytes(texts: Sequence[str]) -> bytes:
    """The bytes of texts: their number, the length of each, and their text."""
    coded = [text.encode() for text in texts]
    try:
        head = struct.pack(f">H{len(coded)}H", len(coded), *map(len, coded))
    except struct.error as error:
        raise PacketError(f"{len(coded)} texts that are too many or too long: {error}") from None
    return b"".join([head, *coded])


def texts_from(reader: Reader, what: str) -> list[str]:
    """Read texts that `texts_to_bytes` wrote."""
    (count,) = reader.numbers(_SHORT, what)
    if count > MOST_TAGS:
        raise PacketError(f"{count} {what}; expected at most {MOST_TAGS}")
    lengths = struct.unpack(f">{count}H", reader.take(2 * count, what))
    return [reader.text(length, what) for length in lengths]


def tags_from_bytes(data: bytes) -> Tags:
    """Parse the tags of a registration."""
    reader = Reader(data, "a registration")
    tags = frozenset(texts_from(reader, "tags"))
    reader.check_end()
    return tags


def update_to_bytes(told: TreeUpdate) -> bytes:
    """The bytes of an update; they do not depend on the order of descriptors."""
    update, is_bloom = told.update, _is_bloom(told.update)
    flags = (_WHOLE if told.is_whole else 0) | (_FILTERS if is_bloom else 0)
    parts = [_HEAD.pack(told.version, told.tree, flags)]
    for some in (update.additions, update.removals):
        parts.append(_LONG.pack(len(some)))
        if is_bloom:
            rows = some.signatures().astype(">u8") if len(some) else ()
            parts += sorted(row.tobytes() for row in rows)
        else:
            parts += sorted(texts_to_bytes(sorted(tags)) for tags in some)
    return b"".join(parts)


def _is_bloom(update: Update) -> bool:
    return any(
        isinstance(some, Descriptors) and some.vocabulary.kind == "bloom"
        for some in (update.additions, update.removals)
    )


def update_from_bytes(data: bytes) -> TreeUpdate:
    """Parse an update; raise PacketError for other bytes."""
    reader = Reader(data, "an update")
    version, tree, flags = reader.numbers(_HEAD, "head")
    if flags >> 2:
        raise PacketError(f"an update with flags {flags}; expected fewer bits")
    additions = _descriptors(reader, bool(flags & _FILTERS))
    removals = _descriptors(reader, bool(flags & _FILTERS))
    reader.check_end()
    return TreeUpdate(version, tree, Update(additions, removals), bool(flags & _WHOLE))


def is_of_filters(data: bytes) -> bool:
    """True if an update has Bloom filters."""
    return bool(data[_HEAD.size - 1] & _FILTERS)


def _descriptors(reader: Reader, is_bloom: bool) -> Any:
    (count,) = reader.numbers(_LONG, "descriptors")
    if is_bloom:
        words = np.frombuffer(reader.take(FILTER_BYTES * count, "filters"), ">u8")
        return words.astype(np.uint64).reshape(count, -1) if count else ()
    return [frozenset(texts_from(reader, "tags")) for _ in range(count)]


def updates_to_bytes(told: TreeUpdate, most: int) -> list[bytes]:
    """The bytes of an update, split into several updates of at most `most` bytes each."""
    data, update = update_to_bytes(told), told.update
    n_removals, n_additions = len(update.removals), len(update.additions)
    if len(data) <= most or n_removals + n_additions <= 1:
        return [data]
    if n_removals and n_additions:
        halves = [Update((), update.removals), Update(update.additions)]
    elif n_removals:
        half = n_removals // 2
        halves = [
            Update((), _some(update.removals, 0, half)),
            Update((), _some(update.removals, half, n_removals)),
        ]
    else:
        half = n_additions // 2
        halves = [
            Update(_some(update.additions, 0, half)),
            Update(_some(update.additions, half, n_additions)),
        ]
    first, second = (told._replace(update=one) for one in halves)
    return updates_to_bytes(first, most) + updates_to_bytes(second._replace(is_whole=False), most)


def _some(descriptors: Any, low: int, high: int) -> Any:
    if isinstance(descriptors, Descriptors):
        return descriptors.take(np.arange(low, high))
    return descriptors[low:high]
