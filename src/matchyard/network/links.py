"""A router on the network: a station with TCP connections, in asyncio.

    connections ──frames──▶ inputs, batch by batch ──▶ log ──▶ station ──▶ sessions ──frames──▶ connections

A batch is all messages that have arrived since the last batch. The router writes a batch to disk, then the station
processes it, then the router acknowledges it.

Flow control: a router sends a peer only a limited number of unacknowledged bytes; the rest stays in the session of the
peer. While the session of an active peer is half full, this peer holds up others: the router reads nothing from its
own clients, and does not acknowledge messages of other neighbours. It tells the neighbours when it was last held up,
so that they hold up others in turn. A peer that has acknowledged nothing for two seconds no longer holds up others:
its session fills, and messages without room are dropped and counted. Routers in a ring that hold up only each other
therefore resume after two seconds.
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
from matchyard.network.connections import (
    FRAME_BYTES,
    PATIENCE,
    AlreadyConnected,
    Connection,
)
from matchyard.network.frames import (
    OLDEST,
    FrameKind,
    Hello,
    LinkError,
    Secrets,
    connect,
    frame,
    greet,
    keep_alive,
    read_ack,
    read_data,
    read_expected,
    read_frame,
    read_living,
    read_ready,
    ready_frame,
    sending,
    welcome,
)
from matchyard.network.input_queue import MOST_WAITING, InputQueue
from matchyard.network.metrics_page import serve_page
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.questions import answer, metrics
from matchyard.network.settings import Settings
from matchyard.network.station import Station
from matchyard.network.station_log import StationLog
from matchyard.network.warm_up import warm_up

_log = logging.getLogger("matchyard")
_LOOK_EVERY = 0.25  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds before a router reconnects


class RouterServer:
    """A router that listens, connects to neighbours, and serves clients.

    All peers must know `secret`, except the neighbours with a secret of their own in `peer_secrets`, by name. Without
    a secret, only loopback addresses are allowed. With a folder `state`, the router recovers its state after it was
    killed. At the address `metrics_at`, it serves its counts over HTTP.
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
                    f"address {host} can be reached from other machines; expected a secret, or 127.0.0.1"
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
        self._queue = InputQueue(min(MOST_WAITING, self._settings.session_bytes // 8))
        self._is_free = asyncio.Event()  # set while no peer holds up others
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._page: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """The address at which the router listens."""
        return f"{self._listen[0]}:{self.port}"

    @property
    def port(self) -> int:
        """The port at which the router listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def connected(self) -> list[str]:
        """The names of the neighbours that are connected now."""
        return sorted(peer.name for peer in self.connections if peer.role is Role.ROUTER)

    # ---------------------------------------------------------------- from start to end

    async def start(self) -> None:
        """Start to listen, and connect to neighbours."""
        warm_up(self._settings)  # compile before peers wait
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
        """Run until cancelled, or until a batch fails; then stop."""
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Close all connections and release the folder of the state."""
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
        await serve_page(reader, writer, lambda: metrics(self.station, self.connected()))

    # ---------------------------------------------------------------- batches

    async def _work(self) -> None:
        """Process inputs batch by batch."""
        while True:
            inputs, done = await self._queue.next_batch()
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
        """Refresh flow control regularly, and send signs of life to neighbours."""
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
                connection.close("forgotten; there are too many other clients")
                continue
            is_latest = connection.held_up_at() == latest
            # A peer that holds up others does not hold up its own messages.
            connection.answer(other if is_latest else latest, now)

    # ---------------------------------------------------------------- connections

    async def _keep_connected(self, host: str, port: int) -> None:
        """Keep a connection to a neighbour: reconnect, unless the neighbour has connected to this router."""
        pause, peer = _FIRST_PAUSE, None
        while True:
            if peer is None or peer not in self.connections:
                try:
                    reader, writer = await connect(host, port)
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
        """Serve an incoming connection."""
        keep_alive(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._connection(reader, writer, is_caller=False) as connection:
                await self._read(reader, connection)
        except AlreadyConnected as error:
            _log.debug("router %s: %s", self.name, error)
        except (LinkError, TimeoutError) as error:
            _log.warning("router %s: %s", self.name, str(error) or "a peer was too slow")
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
        """Perform the handshake, then send the session of the peer until the context ends."""
        connection, writing = None, None
        try:
            connection = await self._opened(reader, writer, is_caller)
            peer = connection.peer
            _log.info("router %s: %s %s connected", self.name, peer.role.name.lower(), peer.name)
            writing = sending(connection.send(), writer)
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
        """Perform the handshake and make the connection."""
        own = Hello.of(Role.ROUTER, self.name, self._settings.common())
        shake = greet if is_caller else welcome
        other = await shake(reader, writer, own, self._secrets)
        peer = Peer(other.role, other.name)
        if is_caller and (other.role is not Role.ROUTER or other.common != own.common):
            raise LinkError(f"{other.name} has {other.common}; {self.name} has {own.common}")
        # Both ends exchange incarnations first: a changed one means lost state and resets the session.
        incarnation = self.station.incarnation
        writer.write(ready_frame(incarnation, 0))
        theirs, _ = read_ready(await read_expected(reader, FrameKind.READY))
        self._replace(peer, theirs, is_caller)
        await self._queue.submit([Input(peer, InputKind.MEETING, theirs)])
        await self._queue.processed()
        session = self.station.session(peer)
        writer.write(ready_frame(incarnation, session.expected))
        _, expected = read_ready(await read_expected(reader, FrameKind.READY))
        if session.incarnation != theirs:  # the numbers of this handshake are of another session
            raise LinkError(f"{peer.name} has lost its state and connected again meanwhile")
        sent = session.first if expected == OLDEST else expected
        if not session.first <= sent <= session.next:
            raise LinkError(
                f"{peer.name} expects message {sent}; {self.name} has {session.first} to {session.next}"
            )
        if (
            peer.role is Role.ROUTER and expected > session.first
        ):  # the neighbour has the earlier messages on disk
            await self._queue.submit([Input(peer, InputKind.ACKNOWLEDGEMENT, expected)])
        self._replace(peer, theirs, is_caller)
        connection = self.connections[peer] = Connection(peer, writer, session, sent, is_caller)
        connection.is_new.set()
        return connection

    def _replace(self, peer: Peer, incarnation: int, is_caller: bool) -> None:
        """Close the older of two connections of a peer, or raise AlreadyConnected for the newer one.
        If two neighbours connect to each other, the connection opened by the lower name stays."""
        old = self.connections.get(peer)
        if old is None:
            return
        if peer.role is Role.ROUTER and old.session.incarnation != incarnation:
            raise LinkError(
                f"another router {peer.name} is connected already; expected names that differ"
            )
        is_by_lower = old.is_caller == (self.name < peer.name)
        if peer.role is Role.ROUTER and old.is_caller != is_caller and is_by_lower:
            raise AlreadyConnected(peer)
        del self.connections[peer]
        old.close(
            f"{peer.name} has connected again from elsewhere" if peer.role is Role.TAIL else ""
        )

    async def _read(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        """Read frames until a farewell, an error, or the replacement of this connection."""
        peer = connection.peer
        is_router = peer.role is Role.ROUTER
        most = self._most_of_router if is_router else self._most_of_client
        read = read_living if is_router else read_frame
        while True:
            kind, content = await read(reader, most)
            if self.connections.get(peer) is not connection:
                return
            if kind is FrameKind.DATA:
                await self._take_data(connection, content)
            elif kind is FrameKind.ACK:
                expected, held_for = read_ack(content)
                connection.note_progress(expected, held_for)
                if expected > connection.session.first:
                    await self._queue.submit([Input(peer, InputKind.ACKNOWLEDGEMENT, expected)])
                connection.is_new.set()
            elif kind is FrameKind.QUERY and peer.role is Role.CLIENT:
                await self._queue.processed()
                reply = answer(self.station, content, self.connected())
                connection.writer.write(frame(FrameKind.ANSWER, json.dumps(reply).encode()))
            elif kind is FrameKind.FAREWELL and peer.role is Role.CLIENT:
                await self._queue.submit([Input(peer, InputKind.FAREWELL)])
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
            if self.connections.get(peer) is not connection:
                return
        await self._queue.submit(
            [
                Input(peer, InputKind.MESSAGE, first + position, message)
                for position, message in enumerate(messages)
            ]
        )
