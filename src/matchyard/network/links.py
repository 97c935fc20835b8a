"""A router on the network: a station behind TCP connections, with asyncio.

    connections ──frames──▶ inputs, batch by batch ──▶ log ──▶ station ──▶ sessions ──frames──▶ connections

Whatever has arrived since the last batch is the next batch. It is written to disk before the station takes it, and
acknowledged after that.

Flow control: a peer is sent only so much that it has not acknowledged; the rest stays in its session. While the session
of a peer that reads is half full, others are held up: the router takes nothing from its own clients, and does not
acknowledge what other neighbours send. It tells them when it was last held up, so that they hold up others in turn.
A peer that has not acknowledged anything for two seconds holds nobody up: its session fills, and what has no room is
dropped and counted. Routers that only hold up each other, in a ring, find after two seconds that nobody does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matchyard.errors import MatchyardError, UsageError
from matchyard.network.addresses import is_loopback, parse_address
from matchyard.network.connections import FRAME_BYTES, PATIENCE, SECONDS_OF_SILENCE, Connection
from matchyard.network.frames import (
    OLDEST,
    SECONDS_TO_PROVE,
    FrameKind,
    Hello,
    LinkError,
    Secrets,
    frame,
    greet,
    keep_alive,
    read_ack,
    read_data,
    read_expected,
    read_frame,
    read_ready,
    ready_frame,
    welcome,
)
from matchyard.network.questions import answer, metrics
from matchyard.network.station import Input, InputKind, Peer, Role, Settings, Station, warm_up
from matchyard.network.station_log import StationLog

_log = logging.getLogger("matchyard")
_MOST_WAITING = (
    8 << 20
)  # bytes of messages that are not processed yet, if sessions have room for it
_LOOK_EVERY = 0.25  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds before a router connects again


class AlreadyConnected(LinkError):
    """A second connection of a neighbour, where the first one counts."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(f"{peer.name} is connected already")
        self.peer = peer


class RouterServer:
    """A router that listens, connects to neighbours, and serves clients.

    `secret` is what all peers must know, but for neighbours that have one in `peer_secrets`, by name; without one,
    only loopback addresses are allowed. With `state`, a folder,
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
        peer_secrets: Mapping[str, bytes] | None = None,
    ) -> None:
        self._listen, self._connect = parse_address(listen), [parse_address(one) for one in connect]
        self._metrics = None if metrics_at is None else parse_address(metrics_at)
        self.name = name or listen
        for host, _ in (self._listen, *self._connect, self._metrics or self._listen):
            if not secret and not is_loopback(host):
                raise UsageError(
                    f"address {host} is not of this machine alone; expected a secret, or 127.0.0.1"
                )
        self._secrets = Secrets(secret, dict(peer_secrets or {}))
        self._settings = settings or Settings()
        self._most_of_router = self._settings.longest() + 2 * FRAME_BYTES  # bytes of a frame
        self._most_of_client = max(self._settings.message_bytes, FRAME_BYTES) + FRAME_BYTES
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
    def address(self) -> str:
        """Where it listens."""
        return f"{self._listen[0]}:{self.port}"

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
        warm_up(self._settings)  # before peers wait
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
        """Notice in time that a peer holds others up no longer, and tell neighbours that this router is there."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self._answer_all()

    def _answer_all(self) -> None:
        now = asyncio.get_running_loop().time()
        held_up = sorted((one.held_up_at() for one in self.connections.values()), reverse=True)
        latest, other = [*held_up, -math.inf, -math.inf][:2]
        if now - latest < PATIENCE:
            self._is_free.clear()
        else:
            self._is_free.set()
        for connection in list(self.connections.values()):
            if connection.session is not self.station.sessions.get(connection.peer):
                connection.close("forgotten; there are too many others")
                continue
            is_latest = connection.held_up_at() == latest
            connection.answer(other if is_latest else latest, now)  # of others than the peer

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
        """Connect to a neighbour, again and again, unless it has connected to this router."""
        pause, peer = _FIRST_PAUSE, None
        while True:
            if peer is None or peer not in self.connections:
                try:
                    reader, writer = await asyncio.open_connection(host, port)
                    async with self._connection(reader, writer, is_caller=True) as connection:
                        pause, peer = _FIRST_PAUSE, connection.peer
                        await self._read(reader, connection)
                except AlreadyConnected as error:
                    peer = error.peer
                except LinkError as error:
                    _log.warning("router %s, neighbour %s:%d: %s", self.name, host, port, error)
                except (TimeoutError, OSError, EOFError) as error:
                    _log.debug("router %s, neighbour %s:%d: %s", self.name, host, port, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody has connected."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._connection(reader, writer, is_caller=False) as connection:
                await self._read(reader, connection)
        except AlreadyConnected as error:
            _log.debug("router %s: %s", self.name, error)
        except (LinkError, TimeoutError) as error:
            _log.warning("router %s: %s", self.name, str(error) or "somebody was too slow")
        except (OSError, EOFError) as error:
            _log.debug("router %s: %s", self.name, error)
        except asyncio.CancelledError:
            pass  # the router stops
        finally:
            self._tasks.discard(task)

    @contextlib.asynccontextmanager
    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_caller: bool
    ) -> AsyncIterator[Connection]:
        """A connection after its handshake, on which the session of the peer is sent."""
        connection, writing = None, None
        keep_alive(writer)
        try:
            async with asyncio.timeout(SECONDS_TO_PROVE):
                connection = await self._opened(reader, writer, is_caller)
            peer = connection.peer
            _log.info("router %s: %s %s is here", self.name, peer.role.name.lower(), peer.name)
            writing = asyncio.ensure_future(connection.send())
            yield connection
        except MatchyardError as error:
            with contextlib.suppress(OSError):
                writer.write(frame(FrameKind.REFUSAL, str(error).encode()[:1000]))
            raise
        finally:
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            if connection is not None and self.connections.get(connection.peer) is connection:
                del self.connections[connection.peer]
            writer.close()

    async def _opened(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_caller: bool
    ) -> Connection:
        """The handshake."""
        own = Hello.of(Role.ROUTER, self.name, self._settings.common())
        shake = greet if is_caller else welcome
        other = await shake(reader, writer, own, self._secrets)
        peer = Peer(other.role, other.name)
        if is_caller and (other.role is not Role.ROUTER or other.common != own.common):
            raise LinkError(f"{other.name} has {other.common}; {self.name} has {own.common}")
        # Both ends must know whether the other has lost its state before they say what they expect.
        incarnation = self.station.incarnation
        writer.write(ready_frame(incarnation, 0))
        theirs, _ = read_ready(await read_expected(reader, FrameKind.READY))
        self._replace(peer, theirs, is_caller)
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
        if peer.role is Role.ROUTER and expected > session.first:  # which it has on disk
            await self._submit([Input(peer, InputKind.ACKNOWLEDGEMENT, expected)])
        self._replace(peer, theirs, is_caller)
        connection = self.connections[peer] = Connection(peer, writer, session, sent, is_caller)
        connection.is_new.set()
        return connection

    def _replace(self, peer: Peer, incarnation: int, is_caller: bool) -> None:
        """Of two connections of a peer, the newer one counts. Of two neighbours that have connected to each other, the
        connection counts that the one with the lower name has made."""
        old = self.connections.get(peer)
        if old is None:
            return
        if peer.role is Role.ROUTER and old.session.incarnation != incarnation:
            raise LinkError(
                f"a router {peer.name} is connected already; expected names that differ"
            )
        is_by_lower = old.is_caller == (self.name < peer.name)
        if peer.role is Role.ROUTER and old.is_caller != is_caller and is_by_lower:
            raise AlreadyConnected(peer)
        del self.connections[peer]
        old.close(
            f"{peer.name} has connected again from elsewhere" if peer.role is Role.TAIL else ""
        )

    async def _read(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        """Read frames until the peer has enough, or another connection of it counts."""
        peer = connection.peer
        is_router = peer.role is Role.ROUTER
        most = self._most_of_router if is_router else self._most_of_client
        while True:
            async with asyncio.timeout(SECONDS_OF_SILENCE if is_router else None):
                kind, content = await read_frame(reader, most)
            if self.connections.get(peer) is not connection:
                return
            if kind is FrameKind.DATA:
                await self._take_data(connection, content)
            elif kind is FrameKind.ACK:
                expected, held_for = read_ack(content)
                connection.note_progress(expected, held_for)
                if expected > connection.session.first:
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

    async def _take_data(self, connection: Connection, content: bytes) -> None:
        peer, (first, messages) = connection.peer, read_data(content)
        if peer.role is not Role.ROUTER:
            longest = max(map(len, messages), default=0)
            if longest > self._settings.message_bytes:
                raise LinkError(
                    f"a message of {longest} bytes; expected at most {self._settings.message_bytes}"
                )
            await self._is_free.wait()
        await self._submit(
            [
                Input(peer, InputKind.MESSAGE, first + place, message)
                for place, message in enumerate(messages)
            ]
        )
