"""Frames on a connection, and the handshake before them.

A frame has 4 bytes length of the rest, 1 byte kind, and its content. Numbers are big-endian.

    kind       content
    1 hello    8 "matchyrd", 1 version of this form, 1 role, 16 random bytes, then two texts, the name and the
               settings that all routers must share: 2 number of texts, 2 length of each, their text
    2 proof    32 HMAC-SHA-256 under the secret, of the end that proves it and both hellos
    3 ready    8 incarnation, 8 number of the next expected message (2^64 - 1: the oldest available)
    4 data     8 sequence number of the first message, then messages: 4 length, content (see `messages`)
    5 ack      8 number of the next expected message, 4 milliseconds since the sender was last held up (2^32 - 1:
               it is not held up); also a sign of life
    6 refusal  the reason for which the connection ends, as text
    7 query    a question, as JSON
    8 answer   the answer, as JSON
    9 farewell a client will not connect again; its messages stay

The caller sends hello, then the listener does. The caller proves that it knows the secret, then the listener does.
Then both send ready. Nothing is encrypted: a secret prevents strangers from joining, not from listening.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import socket
import struct
from collections.abc import Coroutine, Mapping, Sequence
from enum import IntEnum
from secrets import token_bytes
from types import MappingProxyType
from typing import Any, NamedTuple

from matchyard.errors import MatchyardError
from matchyard.network.messages import texts_from, texts_to_bytes
from matchyard.network.packet import PacketError, Reader
from matchyard.network.peers import Role

_log = logging.getLogger("matchyard")
FORM = 1
MAGIC = b"matchyrd"
OLDEST = (1 << 64) - 1
MOST_BEFORE_PROOF = 4096  # bytes of a frame before the proof
SECONDS_TO_PROVE = 10.0  # for each frame before the proof
SECONDS_OF_SILENCE = 20.0  # after which a peer that sends signs of life counts as gone
_MOST_MESSAGES = 1 << 62
_HEAD, _NUMBER, _LENGTH = struct.Struct(">IB"), struct.Struct(">Q"), struct.Struct(">I")
_HELLO = struct.Struct(">8sBB16s")
_READY, _ACK = struct.Struct(">QQ"), struct.Struct(">QI")
_NOT_HELD = (1 << 32) - 1


class LinkError(MatchyardError, ConnectionError):
    """A peer that violates the protocol, is refused, or cannot be reached."""


class FrameKind(IntEnum):
    """The kind of a frame."""

    HELLO = 1
    PROOF = 2
    READY = 3
    DATA = 4
    ACK = 5
    REFUSAL = 6
    QUERY = 7
    ANSWER = 8
    FAREWELL = 9


def frame(kind: FrameKind, content: bytes = b"") -> bytes:
    """The bytes of a frame."""
    return _HEAD.pack(len(content) + 1, kind) + content


async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to a listener."""
    async with asyncio.timeout(SECONDS_TO_PROVE):
        reader, writer = await asyncio.open_connection(host, port)
    # Without a listener, the system may choose the same port for this end. Both ends are then this socket, and the
    # listener that is about to restart would find its port in use.
    if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
        writer.close()
        raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
    keep_alive(writer)
    return reader, writer


def sending(work: Coroutine[Any, Any, None], writer: asyncio.StreamWriter) -> asyncio.Task[None]:
    """Start to send. The connection closes at the end, so that its reader ends, too."""

    def end(task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not isinstance(failure, OSError):
            _log.warning("a connection closes: %r", failure)
        writer.close()

    task = asyncio.ensure_future(work)
    task.add_done_callback(end)
    return task


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the system detect that the other end has vanished."""
    connected = writer.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def read_frame(reader: asyncio.StreamReader, most: int) -> tuple[FrameKind, bytes]:
    """Read the next frame; a frame longer than `most` is an error."""
    head = await reader.readexactly(_HEAD.size)
    length, kind = _HEAD.unpack(head)
    if not 1 <= length <= most:
        raise LinkError(f"a frame of {length} bytes; expected 1 to {most}")
    try:
        return FrameKind(kind), await reader.readexactly(length - 1)
    except ValueError:
        raise LinkError(f"a frame of kind {kind}; expected 1 to {len(FrameKind)}") from None


async def read_living(reader: asyncio.StreamReader, most: int) -> tuple[FrameKind, bytes]:
    """Read the next frame of a peer that sends signs of life; raise TimeoutError if it is silent for too long."""
    async with asyncio.timeout(SECONDS_OF_SILENCE):
        return await read_frame(reader, most)


async def read_expected(reader: asyncio.StreamReader, wanted: FrameKind) -> bytes:
    """Read a frame of the wanted kind and return its content; raise a refusal.

    Each frame has time of its own: a busy router answers one frame between two batches. Before it is ready, it
    processes a batch.
    """
    seconds = SECONDS_OF_SILENCE if wanted is FrameKind.READY else SECONDS_TO_PROVE
    async with asyncio.timeout(seconds):
        kind, content = await read_frame(reader, MOST_BEFORE_PROOF)
    if kind is FrameKind.REFUSAL:
        raise LinkError(f"refused: {content.decode(errors='replace')}")
    if kind is not wanted:
        raise LinkError(f"a frame of kind {kind.name}; expected {wanted.name}")
    return content


class Hello(NamedTuple):
    """The first frame of each end, which identifies it."""

    role: Role
    name: str
    common: str
    nonce: bytes

    @classmethod
    def of(cls, role: Role, name: str, common: str) -> Hello:
        """A hello with a new nonce."""
        return cls(role, name, common, token_bytes(16))

    def to_bytes(self) -> bytes:
        """The form on the wire."""
        head = _HELLO.pack(MAGIC, FORM, self.role, self.nonce)
        return head + texts_to_bytes((self.name, self.common))

    @classmethod
    def from_bytes(cls, data: bytes) -> Hello:
        """Parse a hello; raise LinkError for other bytes."""
        try:
            reader = Reader(data, "a hello")
            magic, form, role, nonce = _HELLO.unpack(reader.take(_HELLO.size, "head"))
            if magic != MAGIC:
                raise LinkError("not a hello of a Matchyard router or client")
            if form != FORM:
                raise LinkError(f"a peer that speaks form {form}; expected {FORM}")
            name, common = texts_from(reader, "texts")
            reader.check_end()
            return cls(Role(role), name, common, nonce)
        except (PacketError, ValueError) as error:
            raise LinkError(f"no hello: {error}") from None


def proof(secret: bytes, who: bytes, first: bytes, second: bytes) -> bytes:
    """The bytes that prove knowledge of the secret after both hellos."""
    return hmac.digest(secret, who + _LENGTH.pack(len(first)) + first + second, "sha256")


class Secrets(NamedTuple):
    """The secrets of peers: a common one, and own ones of some peers by name."""

    common: bytes = b""
    own: Mapping[str, bytes] = MappingProxyType({})

    def of(self, peer: Hello) -> bytes:
        """The secret shared with a peer."""
        return self.own.get(peer.name, self.common)


async def greet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: Hello, secrets: Secrets
) -> Hello:
    """Perform the handshake of the caller; return the hello of the listener."""
    first = own.to_bytes()
    writer.write(frame(FrameKind.HELLO, first))
    second = await read_expected(reader, FrameKind.HELLO)
    other = Hello.from_bytes(second)
    secret = secrets.of(other)
    writer.write(frame(FrameKind.PROOF, proof(secret, b"who connects", first, second)))
    answer = await read_expected(reader, FrameKind.PROOF)
    if not hmac.compare_digest(answer, proof(secret, b"who listens", first, second)):
        raise LinkError(f"{other.name} does not know the secret")
    return other


async def welcome(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: Hello, secrets: Secrets
) -> Hello:
    """Perform the handshake of the listener; return the hello of the caller."""
    first = await read_expected(reader, FrameKind.HELLO)
    other = Hello.from_bytes(first)
    if other.role is Role.ROUTER and other.common != own.common:
        raise LinkError(f"{other.name} has {other.common}; {own.name} has {own.common}")
    if other.role is Role.ROUTER and other.name == own.name:
        raise LinkError(f"two routers have the name {own.name}; expected names that differ")
    second, secret = own.to_bytes(), secrets.of(other)
    writer.write(frame(FrameKind.HELLO, second))
    answer = await read_expected(reader, FrameKind.PROOF)
    if not hmac.compare_digest(answer, proof(secret, b"who connects", first, second)):
        raise LinkError(f"{other.name} does not know the secret")
    writer.write(frame(FrameKind.PROOF, proof(secret, b"who listens", first, second)))
    return other


def ready_frame(incarnation: int, expected: int) -> bytes:
    """The frame that ends the handshake."""
    return frame(FrameKind.READY, _READY.pack(incarnation, expected))


def read_ready(content: bytes) -> tuple[int, int]:
    """Parse a ready frame: the incarnation and the next expected message."""
    incarnation, expected = _unpacked(_READY, content)
    return incarnation, expected


def ack_frame(expected: int, held_for: float = math.inf) -> bytes:
    """A frame that acknowledges all messages before `expected`; `held_for` is in seconds."""
    milliseconds = _NOT_HELD if held_for > 1e6 else int(1000 * held_for)
    return frame(FrameKind.ACK, _ACK.pack(expected, milliseconds))


def read_ack(content: bytes) -> tuple[int, float]:
    """Parse an ack frame: the next expected message, and the seconds since the sender was held up."""
    expected, milliseconds = _unpacked(_ACK, content)
    return expected, math.inf if milliseconds == _NOT_HELD else milliseconds / 1000


def _unpacked(form: struct.Struct, content: bytes) -> tuple[int, ...]:
    try:
        return form.unpack(content)
    except struct.error:
        raise LinkError(f"a frame of {len(content)} bytes; expected {form.size}") from None


def data_frame(first: int, messages: Sequence[bytes]) -> bytes:
    """A frame of consecutive messages."""
    parts = [_NUMBER.pack(first)]
    for message in messages:
        parts += (_LENGTH.pack(len(message)), message)
    return frame(FrameKind.DATA, b"".join(parts))


def read_data(content: bytes) -> tuple[int, list[bytes]]:
    """Parse a data frame: the number of the first message, and all messages."""
    if len(content) < _NUMBER.size:
        raise LinkError("a frame of data without a sequence number")
    (first,) = _NUMBER.unpack_from(content)
    if first >= _MOST_MESSAGES:
        raise LinkError(f"message {first}; expected numbers up to 2^62")
    messages, at = list[bytes](), _NUMBER.size
    while at < len(content):
        if at + _LENGTH.size > len(content):
            raise LinkError("a frame of data ends within a length")
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if at + length > len(content):
            raise LinkError("a frame of data ends within a message")
        messages.append(content[at : at + length])
        at += length
    return first, messages
