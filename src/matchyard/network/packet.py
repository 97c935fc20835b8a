"""A packet: its content, its destination, and its form on the wire. [Thesis 2.2, 2.3]

A packet is forwarded by the locators on its stack, the last one first; with an empty stack, by its tags on its
tree. In a hierarchy, the scope says whether this is a tree within a domain or between domains. Numbers on the
wire are big-endian. Texts are UTF-8. A part with a flag is present if the flag is set.

    bytes  meaning
    1      version of this form: 1
    1      kind: 1 notification, 2 request, 3 reply
    1      flags: 1 tags, 2 filter, 4 identifier, 8 addressee, 16 sender, 32 whole (see `Packet.is_whole`)
    1      cache control: 1 do not store, 2 do not answer from a cache, 4 keep this notification
    1      fan-out: 0 all, 1 at most, 2 at least          4  its limit
    8      version of the tree                            2  the tree
    1      hops so far           1  trees tried so far    1  scope: see `Scope`
    1      locators on the stack 1  stacks of the origin
    19 …   each locator of the stack: 8 version, 2 tree, 8 label, 1 level
    …      each stack of the origin: 1 number of locators, and the locators
    …      tags: 2 their number; 2 length of each; their text
    24     filter: the Bloom filter of the tags
    …      identifier: 2 length, bytes
    …      addressee, sender: 1 kind (0 text, 1 number), 2 length and text, or 8 number
    4 …    length and bytes of the payload
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from matchyard.errors import MatchyardError
from matchyard.network.fan_out import ALL, FanOut, Mode
from matchyard.routing.applications import Key, Tags

WIRE_VERSION = 1
MOST_HOPS = 255
MOST_TRIES = 255  # trees
MOST_TAGS = 4096  # of a packet
MOST_PAYLOAD = 1 << 24  # bytes
FILTER_BYTES = 24
_HEAD = struct.Struct(">BBBBBIQHBBBBB")
_LOCATOR = struct.Struct(">QHQB")
_SHORT, _LONG, _NUMBER = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">q")
_TAGS, _FILTER, _IDENTIFIER, _ADDRESSEE, _SENDER, _WHOLE = 1, 2, 4, 8, 16, 32

# Cache control.
DO_NOT_STORE, DO_NOT_ANSWER, KEEP = 1, 2, 4


class PacketError(MatchyardError, ValueError):
    """A packet that a router refuses: malformed, or of an unknown version, tree or locator."""


class Kind(IntEnum):
    """The kind of a packet."""

    NOTIFICATION = 1  # goes to all applications that want it
    REQUEST = 2  # goes to an application that offers the content, and gets a reply
    REPLY = 3  # goes to the locator of the requester


class Scope(IntEnum):
    """The level of the tree of a packet; LOCAL in a flat network, and for packets by locators only."""

    LOCAL = 0  # on a tree of a domain
    GLOBAL = 1  # on a tree between domains: at its access router, and on its way to a gateway
    CROSSING = 2  # on a tree between domains: from a gateway to the next domain


_KINDS = {one.value: one for one in Kind}  # a dictionary is faster than the class
_MODES = {one.value: one for one in Mode}
_SCOPES = {one.value: one for one in Scope}


class Locator(NamedTuple):
    """The position of a router on a tree, as a label. `level` is 0 within a domain and 1 between domains."""

    version: int
    tree: int
    label: int
    level: int = 0


class Packet(NamedTuple):
    """A packet between routers."""

    kind: Kind
    tags: Tags | None = None
    # The destinations, the next one last: a router, then its domain, then a gateway on the way.
    stack: tuple[Locator, ...] = ()
    version: int = 0  # of the tree
    tree: int = 0  # the present tree, within a domain or between domains: see `scope`
    fan_out: FanOut = ALL
    identifier: bytes = b""  # of the content; the key of caches
    cache_control: int = 0
    origin: tuple[tuple[Locator, ...], ...] = ()  # the sender's locators, a stack for each tree
    addressee: Key | None = None  # set if the packet is for one application only
    sender: Key | None = None
    payload: bytes = b""
    filter: bytes = b""  # the Bloom filter of the tags, if routers compare filters
    hops: int = 0
    tries: int = 0  # trees that did not reach an application
    scope: Scope = Scope.LOCAL
    is_whole: bool = True  # False after its fan-out was shared between copies

    def to_bytes(self) -> bytes:
        """The form on the wire.

        >>> packet = Packet(Kind.NOTIFICATION, frozenset({"jazz", "live"}), payload=b"tonight")
        >>> Packet.from_bytes(packet.to_bytes()) == packet
        True
        """
        return b"".join(_parts(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Packet:
        """Parse a packet; raise PacketError for other bytes."""
        return _read(data)


def _parts(packet: Packet) -> list[bytes]:
    flags = (
        (_TAGS if packet.tags is not None else 0)
        | (_FILTER if packet.filter else 0)
        | (_IDENTIFIER if packet.identifier else 0)
        | (_ADDRESSEE if packet.addressee is not None else 0)
        | (_SENDER if packet.sender is not None else 0)
        | (_WHOLE if packet.is_whole else 0)
    )
    try:
        parts = [
            _HEAD.pack(
                WIRE_VERSION,
                packet.kind,
                flags,
                packet.cache_control,
                packet.fan_out.mode,
                packet.fan_out.limit,
                packet.version,
                packet.tree,
                packet.hops,
                packet.tries,
                packet.scope,
                len(packet.stack),
                len(packet.origin),
            )
        ]
        parts += [_LOCATOR.pack(*locator) for locator in packet.stack]
        for stack in packet.origin:
            parts.append(bytes((len(stack),)))
            parts += [_LOCATOR.pack(*locator) for locator in stack]
        if packet.tags is not None:
            texts = [tag.encode() for tag in sorted(packet.tags)]
            if len(texts) > MOST_TAGS:
                raise PacketError(f"{len(texts)} tags; expected at most {MOST_TAGS}")
            parts.append(struct.pack(f">H{len(texts)}H", len(texts), *map(len, texts)))
            parts += texts
        if packet.filter:
            if len(packet.filter) != FILTER_BYTES:
                raise PacketError(
                    f"a filter of {len(packet.filter)} bytes; expected {FILTER_BYTES}"
                )
            parts.append(packet.filter)
        if packet.identifier:
            parts += [_SHORT.pack(len(packet.identifier)), packet.identifier]
        parts += [key_to_bytes(key) for key in (packet.addressee, packet.sender) if key is not None]
        if len(packet.payload) > MOST_PAYLOAD:
            raise PacketError(
                f"a payload of {len(packet.payload)} bytes; expected at most {MOST_PAYLOAD}"
            )
    except (struct.error, ValueError, UnicodeEncodeError) as error:
        if isinstance(error, PacketError):
            raise
        raise PacketError(f"a packet that has no form on the wire: {error}") from None
    return [*parts, _LONG.pack(len(packet.payload)), packet.payload]


def key_to_bytes(key: Key) -> bytes:
    """The bytes of the key of an application."""
    if isinstance(key, int):
        return b"\1" + _NUMBER.pack(key)
    text = key.encode()
    return b"\0" + _SHORT.pack(len(text)) + text


class Reader:
    """Reads bytes from front to back, and raises PacketError at the end."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.at, self._what = data, 0, what

    def take(self, count: int, part: str) -> bytes:
        """Read `count` bytes."""
        end = self.at + count
        if end > len(self.data):
            raise PacketError(
                f"{self._what} ends within its {part}: {len(self.data)} bytes, expected {end} or more"
            )
        taken, self.at = self.data[self.at : end], end
        return taken

    def check_end(self) -> None:
        """Raise PacketError if bytes are left."""
        if self.at != len(self.data):
            n_more = len(self.data) - self.at
            raise PacketError(f"{self._what} of {self.at} bytes, followed by {n_more} more")

    def numbers(self, form: struct.Struct, what: str) -> tuple[int, ...]:
        """Read the numbers of a struct."""
        return form.unpack(self.take(form.size, what))

    def text(self, count: int, what: str) -> str:
        """Read `count` bytes of text."""
        try:
            return self.take(count, what).decode()
        except UnicodeDecodeError as error:
            raise PacketError(f"{what} of {self._what}: {error}; expected UTF-8") from None

    def locators(self, count: int, what: str) -> tuple[Locator, ...]:
        """Read `count` locators."""
        form = _LOCATOR.size
        data = self.take(count * form, what)
        return tuple(map(Locator._make, _LOCATOR.iter_unpack(data)))

    def key(self, what: str) -> Key:
        """Read the key of an application."""
        kind = self.take(1, what)[0]
        if kind == 1:
            return self.numbers(_NUMBER, what)[0]
        if kind != 0:
            raise PacketError(f"{what} of kind {kind}; expected 0 for text or 1 for a number")
        return self.text(self.numbers(_SHORT, what)[0], what)


def _read(data: bytes) -> Packet:
    if len(data) and data[0] != WIRE_VERSION:
        raise PacketError(f"a packet of form {data[0]}; expected {WIRE_VERSION}")
    reader = Reader(data, "a packet")
    head = reader.numbers(_HEAD, "head")
    _, kind, flags, cache, mode, limit, version, tree, hops, tries, scope, n_stack, n_origin = head
    try:
        of_kind, of_mode, of_scope = _KINDS[kind], _MODES[mode], _SCOPES[scope]
    except KeyError as error:
        raise PacketError(f"kind {kind}, fan-out {mode} or scope {scope}: no {error}") from None
    if flags >> 6 or cache >> 3:
        raise PacketError(f"flags {flags} and cache control {cache}; expected fewer bits")
    if (of_mode is Mode.ALL) != (limit == 0):
        raise PacketError(f"a fan-out of mode {mode} with limit {limit}")
    stack = reader.locators(n_stack, "stack") if n_stack else ()
    origin = tuple(reader.locators(reader.take(1, "origin")[0], "origin") for _ in range(n_origin))
    tags = _read_tags(reader) if flags & _TAGS else None
    filter_ = reader.take(FILTER_BYTES, "filter") if flags & _FILTER else b""
    identifier = _read_bytes(reader) if flags & _IDENTIFIER else b""
    addressee = reader.key("addressee") if flags & _ADDRESSEE else None
    sender = reader.key("sender") if flags & _SENDER else None
    (n_bytes,) = reader.numbers(_LONG, "length of the payload")
    if n_bytes > MOST_PAYLOAD:
        raise PacketError(f"a payload of {n_bytes} bytes; expected at most {MOST_PAYLOAD}")
    payload = reader.take(n_bytes, "payload")
    reader.check_end()
    return Packet(
        of_kind,
        tags,
        stack,
        version,
        tree,
        FanOut(of_mode, limit) if limit else ALL,
        identifier,
        cache,
        origin,
        addressee,
        sender,
        payload,
        filter_,
        hops,
        tries,
        of_scope,
        bool(flags & _WHOLE),
    )


def _read_tags(reader: Reader) -> Tags:
    (count,) = reader.numbers(_SHORT, "tags")
    if count > MOST_TAGS:
        raise PacketError(f"{count} tags; expected at most {MOST_TAGS}")
    lengths = struct.unpack(f">{count}H", reader.take(2 * count, "tags"))
    text, at, words = reader.take(sum(lengths), "tags"), 0, list[str]()
    try:
        for length in lengths:
            words.append(text[at : at + length].decode())
            at += length
    except UnicodeDecodeError as error:
        raise PacketError(f"tags of a packet: {error}; expected UTF-8") from None
    tags = frozenset(words)
    if len(tags) != count:
        raise PacketError("a packet has a tag twice; expected each once")
    return tags


def _read_bytes(reader: Reader) -> bytes:
    (count,) = reader.numbers(_SHORT, "identifier")
    if count == 0:
        raise PacketError("an empty identifier; expected none, or some bytes")
    return reader.take(count, "identifier")
