"""A router on the network: a station behind TCP connections, with asyncio.

    connections ──frames──▶ inputs, batch by batch ──▶ log ──▶ station ──▶ sessions ──frames──▶ connections

Whatever has arrived since the last batch is the next batch. It is written to disk before the station takes it, and
acknowledged after that.

Flow control: a peer is sent only so much that it has not acknowledged; the rest stays in its session. While the session
of a peer that reads is half full, the router is *congested*: it takes nothing from its own clients, and is slow to
acknowledge what neighbours send, so that they become congested in turn. A peer that has not acknowledged anything for a
while holds nobody up: its session fills, and what has no room is dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from matchyard.errors import MatchyardError, UsageError
from matchyard.network.frames import (
    OLDEST,
    SECONDS_TO_PROVE,
    FrameKind,
    Hello,
    LinkError,
    ack_frame,
    data_frame,
    frame,
    greet,
    read_ack,
    read_data,
    read_expected,
    read_frame,
    read_ready,
    ready_frame,
    welcome,
)
from matchyard.network.questions import answer, metrics
from matchyard.network.sessions import Session
from matchyard.network.station import Input, InputKind, Peer, Role, Settings, Station
from matchyard.network.station_log import StationLog

_log = logging.getLogger("matchyard")
_MOST_WAITING = (
    8 << 20
)  # bytes of messages that are not processed yet, if sessions have room for it
_MOST_ON_THE_WAY = 4 << 20  # bytes to a peer that it has not acknowledged
_FRAME = 256 << 10  # bytes of messages that go together
_PATIENCE = 2.0  # seconds that a peer may read nothing and hold others up
_LATE = 0.5  # seconds that an acknowledgement waits at most
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds before a router connects again


def parse_address(text: str) -> tuple[str, int]:
    """Host and port.

    >>> parse_address("127.0.0.1:7000")
    ('127.0.0.1', 7000)
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError(f"address {text!r}; expected host:port, e.g. 127.0.0.1:7000")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Is it this machine alone?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Connection:
    """One connection to a peer, while it lasts."""

    def __init__(
        self, peer: Peer, writer: asyncio.StreamWriter, session: Session, sent: int
    ) -> None:
        self.peer, self.writer, self.session = peer, writer, session
        self.sent = sent  # the sequence number of the message that is sent next
        kept = islice(session.kept, sent - session.first)
        self.n_bytes_sent = session.n_bytes_gone + sum(map(len, kept))
        self.acknowledged = session.expected
        self.acknowledged_at = self.progress_at = asyncio.get_running_loop().time()
        self.is_new = asyncio.Event()  # is there something to send, or room to send it?

    def next_messages(self) -> list[bytes]:
        """Messages for one frame, if what is on its way leaves room for it."""
        place = self.sent - self.session.first
        found, n_bytes = list[bytes](), 0
        if place < 0 or self.n_bytes_sent - self.session.n_bytes_gone > _MOST_ON_THE_WAY:
            return found
        for message in islice(self.session.kept, place, None):
            if found and n_bytes + len(message) > _FRAME:
                break
            found.append(message)
            n_bytes += len(message)
        self.sent += len(found)
        self.n_bytes_sent += n_bytes
        return found

    def is_behind(self, now: float) -> bool:
        """Does the peer read, but too slowly?"""
        is_full = 2 * self.session.n_bytes > self.session.room
        return is_full and now - self.progress_at < _PATIENCE

    def close(self) -> None:
        """End it; its tasks notice."""
        self.writer.close()


class RouterServer:
    """A router that listens, connects to neighbours, and serves clients.

    `secret` is what all peers must know; without one, only loopback addresses are allowed. With `state`, a folder,
    the router comes back as it was after it was killed. At `metrics_at` it answers by HTTP with its counts.
    """

    def __init__(
        self,
        listen: str,
        connect: Iterable[str] = (),
        name: str | None = None,
        state: Path | None = None,
        secret: bytes = b"",
        settings: Settings | None = None,
        is_synced: bool = False,
        metrics_at: str | None = None,
    ) -> None:
        self._listen, self._connect = parse_address(listen), [parse_address(one) for one in connect]
        self._metrics = None if metrics_at is None else parse_address(metrics_at)
        self.name = name or listen
        for host, _ in (self._listen, *self._connect, self._metrics or self._listen):
            if not secret and not is_loopback(host):
                raise UsageError(
                    f"address {host} is not of this machine alone; expected a secret, or 127.0.0.1"
                )
        self._secret, self._settings = secret, settings or Settings()
        self._most = self._settings.message_bytes + _FRAME
        self._log = (
            None if state is None else StationLog(state, self.name, self._settings, is_synced)
        )
        if self._log is not None:
            self.station = self._log.station
            self._process: Callable[[Sequence[Input]], None] = self._log.process
        else:
            self.station = Station(self.name, secrets.randbits(63) + 1, self._settings)
            self._process = self.station.process
        self.connections: dict[Peer, Connection] = {}
        self._inputs: list[Input] = []
        self._n_waiting = 0
        self._has_input, self._has_room = asyncio.Event(), asyncio.Event()
        self._is_free = asyncio.Event()  # not congested
        self._done: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._page: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that it listens at."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def connected(self) -> list[str]:
        """The neighbours that can be reached now."""
        return sorted(peer.name for peer in self.connections if peer.role is Role.ROUTER)

    # ---------------------------------------------------------------- from start to end

    async def start(self) -> None:
        """Listen, and connect to neighbours."""
        self._has_room.set()
        self._is_free.set()
        host, port = self._listen
        try:
            self._server = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            raise LinkError(f"cannot listen at {host}:{port}: {error}") from None
        self._start(self._work())
        self._start(self._look_after())
        for address in self._connect:
            self._start(self._keep_connected(*address))
        if self._metrics is not None:
            self._page = await asyncio.start_server(self._show_metrics, *self._metrics)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finished(self) -> None:
        """Go on until it is cancelled, or cannot work any longer."""
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Close all connections and let go of the state."""
        for server in (self._server, self._page):
            if server is not None:
                server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for connection in list(self.connections.values()):
            connection.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._log is not None:
            self._log.close()

    async def _show_metrics(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer any request by HTTP with the metrics, as text that Prometheus reads."""
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(SECONDS_TO_PROVE):
                await reader.readuntil(b"\r\n\r\n")
            text = metrics(self.station, self.connected()).encode()
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            head += f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + text)
            await writer.drain()
        writer.close()

    # ---------------------------------------------------------------- batches

    async def _work(self) -> None:
        """Take what has arrived, batch by batch."""
        while True:
            await self._has_input.wait()
            self._has_input.clear()
            inputs, self._inputs, self._n_waiting = self._inputs, [], 0
            done, self._done = self._done, []
            self._has_room.set()
            try:
                self._process(inputs)
            except Exception:
                _log.exception("router %s stops: a batch could not be processed", self.name)
                raise
            for one in done:
                if not one.done():
                    one.set_result(None)
            self._answer_all()
            await asyncio.sleep(0)

    async def _look_after(self) -> None:
        """Notice in time that a peer holds others up no longer."""
        while True:
            await asyncio.sleep(_LATE / 2)
            self._answer_all()

    def _answer_all(self) -> None:
        now = asyncio.get_running_loop().time()
        is_congested = any(one.is_behind(now) for one in self.connections.values())
        if is_congested:
            self._is_free.clear()
        else:
            self._is_free.set()
        for connection in list(self.connections.values()):
            self._answer(connection, is_congested, now)

    def _answer(self, connection: Connection, is_congested: bool, now: float) -> None:
        """Acknowledge what a peer has sent, and wake up who sends to it."""
        session = connection.session
        is_due = not is_congested or now - connection.acknowledged_at > _LATE
        if is_due and session.expected != connection.acknowledged:
            connection.acknowledged, connection.acknowledged_at = session.expected, now
            connection.writer.write(ack_frame(session.expected))
        if session.next > connection.sent:
            connection.is_new.set()

    async def _submit(self, inputs: Sequence[Input]) -> None:
        """Put inputs into the next batch."""
        self._inputs += inputs
        self._n_waiting += sum(len(one.data) for one in inputs)
        self._has_input.set()
        if self._n_waiting > min(_MOST_WAITING, self._settings.session_bytes // 8):
            self._has_room.clear()
            await self._has_room.wait()

    async def _processed(self) -> None:
        """Wait until everything that was submitted so far is processed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.append(done)
        self._has_input.set()
        await done

    # ---------------------------------------------------------------- connections

    async def _keep_connected(self, host: str, port: int) -> None:
        """Connect to a neighbour, again and again."""
        pause = _FIRST_PAUSE
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, port)
                pause = _FIRST_PAUSE
                await self._talk(reader, writer, is_caller=True)
            except (TimeoutError, OSError, EOFError, MatchyardError) as error:
                _log.info("router %s, neighbour %s:%d: %s", self.name, host, port, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody has connected."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._talk(reader, writer, is_caller=False)
        except (TimeoutError, OSError, EOFError, MatchyardError) as error:
            _log.info("router %s: %s", self.name, error)
        except asyncio.CancelledError:
            pass  # the router stops
        finally:
            self._tasks.discard(task)

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_caller: bool
    ) -> None:
        """A whole connection: handshake, then reading and writing until one end has enough."""
        connection = None
        try:
            async with asyncio.timeout(SECONDS_TO_PROVE):
                connection = await self._opened(reader, writer, is_caller)
            _log.info(
                "router %s: %s %s is here",
                self.name,
                connection.peer.role.name.lower(),
                connection.peer.name,
            )
            writing = asyncio.ensure_future(self._write(connection))
            try:
                await self._read(reader, connection)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
        except MatchyardError as error:
            with contextlib.suppress(OSError):
                writer.write(frame(FrameKind.REFUSAL, str(error).encode()[:1000]))
            raise
        finally:
            if connection is not None and self.connections.get(connection.peer) is connection:
                del self.connections[connection.peer]
            writer.close()

    async def _opened(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_caller: bool
    ) -> Connection:
        """The handshake. The newest connection of a peer is the one that counts."""
        own = Hello.of(Role.ROUTER, self.name, self._settings.common())
        shake = greet if is_caller else welcome
        other = await shake(reader, writer, own, self._secret)
        peer = Peer(other.role, other.name)
        if is_caller and (other.role is not Role.ROUTER or other.common != own.common):
            raise LinkError(f"{other.name} has {other.common}; {self.name} has {own.common}")
        old = self.connections.pop(peer, None)
        if old is not None:
            old.close()
        incarnation = self.station.incarnation
        if is_caller:
            # Both ends must know whether the other has lost its state before they say what they expect.
            writer.write(ready_frame(incarnation, 0))
            theirs, _ = read_ready(await read_expected(reader, FrameKind.READY))
        else:
            theirs, _ = read_ready(await read_expected(reader, FrameKind.READY))
            writer.write(ready_frame(incarnation, 0))
        await self._submit([Input(peer, InputKind.MEETING, theirs)])
        await self._processed()
        session = self.station.session(peer)
        writer.write(ready_frame(incarnation, session.expected))
        _, expected = read_ready(await read_expected(reader, FrameKind.READY))
        sent = session.first if expected == OLDEST else expected
        if not session.first <= sent <= session.next:
            raise LinkError(
                f"{peer.name} expects message {sent}; {self.name} has {session.first} to {session.next}"
            )
        connection = self.connections[peer] = Connection(peer, writer, session, sent)
        connection.is_new.set()
        return connection

    async def _read(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        peer = connection.peer
        while True:
            kind, content = await read_frame(reader, self._most)
            if kind is FrameKind.DATA:
                first, messages = read_data(content)
                if peer.role is Role.CLIENT:
                    await self._is_free.wait()
                await self._submit(
                    [
                        Input(peer, InputKind.MESSAGE, first + place, message)
                        for place, message in enumerate(messages)
                    ]
                )
            elif kind is FrameKind.ACK:
                expected = read_ack(content)
                if expected > connection.sent:
                    raise LinkError(f"{peer.name} acknowledges what was not sent to it")
                connection.progress_at = asyncio.get_running_loop().time()
                await self._submit([Input(peer, InputKind.ACKNOWLEDGEMENT, expected)])
                connection.is_new.set()
            elif kind is FrameKind.QUERY and peer.role is Role.CLIENT:
                await self._processed()
                found = answer(self.station, content, self.connected())
                connection.writer.write(frame(FrameKind.ANSWER, json.dumps(found).encode()))
            elif kind is FrameKind.FAREWELL and peer.role is Role.CLIENT:
                await self._submit([Input(peer, InputKind.FAREWELL)])
                return
            elif kind is FrameKind.REFUSAL:
                raise LinkError(f"{peer.name}: {content.decode(errors='replace')}")
            else:
                raise LinkError(f"a frame of kind {kind.name} from a {peer.role.name}")

    async def _write(self, connection: Connection) -> None:
        """Send what is in the session of a peer, as far as it keeps up."""
        while True:
            await connection.is_new.wait()
            connection.is_new.clear()
            while messages := connection.next_messages():
                first = connection.sent - len(messages)
                connection.writer.write(data_frame(first, messages))
                await connection.writer.drain()
