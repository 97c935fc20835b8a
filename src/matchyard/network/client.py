"""Clients of a running router: `Client` registers and sends, `Tail` reads the packets of an application.

Both reconnect after the router was unreachable. A client keeps each message until the router has written it to
disk. It may send a message several times; the router processes it once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Self

from matchyard.errors import UsageError
from matchyard.network.addresses import parse_address
from matchyard.network.fan_out import ALL, ONE, FanOut
from matchyard.network.frames import (
    OLDEST,
    FrameKind,
    Hello,
    LinkError,
    Secrets,
    ack_frame,
    connect,
    data_frame,
    frame,
    greet,
    read_ack,
    read_data,
    read_expected,
    read_living,
    read_ready,
    ready_frame,
    sending,
)
from matchyard.network.messages import MessageKind, texts_to_bytes
from matchyard.network.packet import Kind, Packet, PacketError
from matchyard.network.peers import Role
from matchyard.network.router import reply_to
from matchyard.network.sessions import Session
from matchyard.network.tables import checked_interest, checked_tags

_MOST_FRAME = 64 << 20
_FRAME = 256 << 10
_WINDOW = 4 << 20  # bytes of messages that the router has not accepted yet
_PAUSE = 0.1  # seconds before it reconnects
_ACKNOWLEDGE_EVERY = 0.25  # seconds


class _Caller:
    """A connection to a router that reconnects, until `patience` seconds have passed without success."""

    role: Role

    def __init__(self, address: str, name: str, secret: bytes, patience: float) -> None:
        self._address, self._name = parse_address(address), name
        self._secrets, self._patience = Secrets(secret), patience
        self._failure: Exception | None = None
        self._has_news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._incarnation: int | None = None  # the router's

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        while True:
            try:
                await self._talk()
            except Exception as error:
                if self._writer is not None:  # the handshake had succeeded
                    deadline = loop.time() + self._patience
                is_passing = isinstance(error, OSError | EOFError) and not isinstance(
                    error, LinkError
                )
                if not is_passing or loop.time() > deadline:
                    self._fail(error)
                    return
            finally:
                self._writer = None
                self._end()
            await asyncio.sleep(_PAUSE)

    def _fail(self, error: Exception) -> None:
        host, port = self._address
        self._failure = LinkError(f"router {host}:{port}: {str(error) or type(error).__name__}")
        self._has_news.set()

    async def _talk(self) -> None:
        reader, writer = await connect(*self._address)
        try:
            await greet(reader, writer, Hello.of(self.role, self._name, ""), self._secrets)
            writer.write(ready_frame(0, 0))
            incarnation, _ = read_ready(await read_expected(reader, FrameKind.READY))
            if self._incarnation not in (None, incarnation):
                self._begin_anew()  # the router has lost its state
            self._incarnation = incarnation
            writer.write(ready_frame(0, self._expected()))
            _, expected = read_ready(await read_expected(reader, FrameKind.READY))
            self._writer = writer
            self._begin(expected)
            await self._work(reader, writer)
        finally:
            writer.close()

    def _expected(self) -> int:
        raise NotImplementedError

    def _begin_anew(self) -> None:
        """Renumber messages for a router that has lost its state."""
        raise NotImplementedError

    def _end(self) -> None:
        """React to the end of a connection."""

    def _begin(self, expected: int) -> None:
        """Start on a new connection; the router expects message number `expected`."""
        raise NotImplementedError

    async def _work(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def _news(self) -> None:
        """Wait for the next event; raise the error if the caller has failed."""
        await self._has_news.wait()
        self._has_news.clear()
        if self._failure is not None:
            self._has_news.set()
            raise self._failure


class Client(_Caller):
    """Registers and sends for the application named `key`.

    >>> async def main() -> None:
    ...     async with Client("127.0.0.1:7000", key="ada") as client:
    ...         await client.register({"jazz", "live"})
    ...         await client.notify({"jazz", "live", "oslo"}, b"tonight at eight")
    """

    role = Role.CLIENT

    def __init__(self, address: str, key: str, secret: bytes = b"", patience: float = 30.0) -> None:
        if not isinstance(key, str) or not key:
            raise UsageError(f"key {key!r}; expected text")
        super().__init__(address, f"{key}/{secrets.token_hex(8)}", secret, patience)
        self.key = key
        self._session = Session(_WINDOW)
        self._sent = 0
        self._to_send = asyncio.Event()
        self._asked: deque[asyncio.Future[Any]] = deque()  # in the order of the answers

    @property
    def n_accepted(self) -> int:
        """The number of messages that the router has on disk."""
        return self._session.first

    async def close(self) -> None:
        """Wait until the router has accepted everything or has failed, then end the connection."""
        with contextlib.suppress(LinkError):
            await self.flush()
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.write(frame(FrameKind.FAREWELL))
                await self._writer.drain()
        await super().close()

    async def register(self, *descriptors: Iterable[str]) -> None:
        """Register for notifications and requests with these tags; return when they are on the router's disk."""
        await self._change(MessageKind.REGISTER, descriptors)

    async def withdraw(self, *descriptors: Iterable[str]) -> None:
        """Withdraw registrations; return when the withdrawals are on the router's disk."""
        await self._change(MessageKind.WITHDRAW, descriptors)

    async def _change(self, kind: MessageKind, descriptors: Iterable[Iterable[str]]) -> None:
        for wanted in [checked_interest(tags) for tags in descriptors]:
            await self._put(kind, texts_to_bytes(sorted(wanted)))
        await self.flush()

    async def notify(
        self, tags: Iterable[str], payload: bytes = b"", fan_out: FanOut | str = ALL
    ) -> None:
        """Send a notification; it is accepted when `flush` returns."""
        packet = Packet(
            Kind.NOTIFICATION, checked_tags(tags), fan_out=FanOut.parse(fan_out), payload=payload
        )
        await self.send(packet)

    async def request(
        self, tags: Iterable[str], identifier: bytes = b"", fan_out: FanOut | str = ONE
    ) -> None:
        """Send a request; the reply goes to the `Tail` of this application."""
        packet = Packet(
            Kind.REQUEST, checked_tags(tags), fan_out=FanOut.parse(fan_out), identifier=identifier
        )
        await self.send(packet)

    async def reply(self, request: Packet, payload: bytes, cache_control: int = 0) -> None:
        """Answer a request that this application has received."""
        content = Packet(
            Kind.REPLY,
            request.tags,
            identifier=request.identifier,
            cache_control=cache_control,
            payload=payload,
        )
        await self.send(reply_to(request, content))

    async def send(self, packet: Packet) -> None:
        """Send a packet unchanged, except that its sender is this application."""
        packet = packet._replace(sender=self.key)
        await self._put(MessageKind.PACKET, packet.to_bytes())

    async def flush(self) -> None:
        """Wait until the router has accepted everything."""
        while self._session.kept:
            await self._news()

    async def forget(self, neighbour: str) -> None:
        """Tell the router that a neighbour is gone for good."""
        await self._put(MessageKind.FORGET, neighbour.encode())
        await self.flush()

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Ask the router about itself: {"ask": "status"}."""
        while True:
            while self._writer is None:
                if self._failure is not None:
                    raise self._failure
                await asyncio.sleep(0.01)
            self._asked.append(asyncio.get_running_loop().create_future())
            self._writer.write(frame(FrameKind.QUERY, json.dumps(question).encode()))
            reply: dict[str, Any] | None = await self._asked[-1]
            if reply is None:  # the connection has ended: ask again
                continue
            if "error" in reply:
                raise LinkError(reply["error"])
            return reply

    async def _put(self, kind: MessageKind, content: bytes) -> None:
        while not self._session.put(bytes([kind]) + content, is_vital=not self._session.kept):
            await self._news()
        self._to_send.set()

    def _expected(self) -> int:
        return 0

    def _begin_anew(self) -> None:
        self._session.restart(0)

    def _end(self) -> None:
        """Wake up all calls of `ask`, which then ask again."""
        while self._asked:
            self._answer(None)

    def _answer(self, reply: Any) -> None:
        """Answer the oldest call of `ask`, unless it was cancelled."""
        asked = self._asked.popleft()
        if not asked.done():
            asked.set_result(reply)

    def _begin(self, expected: int) -> None:
        self._session.acknowledge(expected)
        self._sent = expected
        self._to_send.set()
        self._has_news.set()

    async def _work(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writing = sending(self._write(writer), writer)
        try:
            while True:
                kind, content = await read_living(reader, _MOST_FRAME)
                if kind is FrameKind.ACK:
                    self._session.acknowledge(read_ack(content)[0])
                    self._has_news.set()
                elif kind is FrameKind.ANSWER and self._asked:
                    self._answer(json.loads(content))
                elif kind is FrameKind.REFUSAL:
                    raise LinkError(content.decode(errors="replace"))
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            while messages := self._next():
                first, self._sent = self._sent, self._sent + len(messages)
                writer.write(data_frame(first, messages))
                await writer.drain()

    def _next(self) -> list[bytes]:
        messages, n_bytes = list[bytes](), 0
        kept = self._session.kept
        for position in range(self._sent - self._session.first, len(kept)):
            if messages and n_bytes + len(kept[position]) > _FRAME:
                break
            messages.append(kept[position])
            n_bytes += len(kept[position])
        return messages


class Tail(_Caller):
    """Reads the packets of an application, each once. After `close`, packets that were read never come again.

    >>> async def main() -> None:
    ...     async with Tail("127.0.0.1:7000", key="ada") as tail:
    ...         async for packet in tail:
    ...             print(packet.payload)
    """

    role = Role.TAIL

    def __init__(self, address: str, key: str, secret: bytes = b"", patience: float = 30.0) -> None:
        super().__init__(address, key, secret, patience)
        self.unreadable = 0  # skipped packets
        self._next_number: int | None = None  # the number of the next message, once known
        self._packets: deque[Packet | None] = deque()  # not read yet; None: unreadable
        self._acknowledged_at = 0.0

    async def __aiter__(self) -> AsyncIterator[Packet]:
        now = asyncio.get_running_loop().time
        while True:
            while self._packets:
                packet = self._packets.popleft()
                if packet is not None:
                    yield packet
                if now() - self._acknowledged_at > _ACKNOWLEDGE_EVERY:
                    self._acknowledge(now())
            self._acknowledge(now())
            await self._news()

    async def close(self) -> None:
        """Acknowledge the packets that were read, and end the connection."""
        self._acknowledge(0.0)
        if self._writer is not None:
            with contextlib.suppress(OSError):
                await self._writer.drain()
        await super().close()

    def _acknowledge(self, now: float) -> None:
        """Acknowledge all packets that were read."""
        self._acknowledged_at = now
        if self._writer is not None and self._next_number is not None:
            with contextlib.suppress(OSError):
                self._writer.write(ack_frame(max(0, self._next_number - len(self._packets))))

    def _expected(self) -> int:
        return OLDEST if self._next_number is None else self._next_number

    def _begin_anew(self) -> None:
        self._next_number = None

    def _begin(self, expected: int) -> None:
        self._acknowledge(0.0)  # packets read while disconnected

    async def _work(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            kind, content = await read_living(reader, _MOST_FRAME)
            if kind is FrameKind.REFUSAL:
                raise LinkError(content.decode(errors="replace"))
            if kind is not FrameKind.DATA:
                continue
            first, messages = read_data(content)
            if self._next_number is None:
                self._next_number = first
            if first > self._next_number:
                raise LinkError(f"message {first}; expected {self._next_number}")
            new = messages[self._next_number - first :]
            self._next_number += len(new)
            self._packets.extend(map(self._packet, new))
            self._has_news.set()

    def _packet(self, message: bytes) -> Packet | None:
        try:
            return Packet.from_bytes(message[1:])
        except PacketError:
            self.unreadable += 1
            return None
