"""What must end by itself: handshakes at busy routers, calls to silent ones, and connections whose one half has died."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any

import pytest

from matchyard.network import frames
from matchyard.network.client import Client, Tail
from matchyard.network.connections import Connection
from matchyard.network.frames import (
    FrameKind,
    Hello,
    Secrets,
    connect,
    data_frame,
    read_expected,
    ready_frame,
    welcome,
)
from matchyard.network.messages import MessageKind, texts_to_bytes
from matchyard.network.peers import Input, Peer, Role
from matchyard.network.sessions import Session
from tests.network.test_bad_peers import connected
from tests.network.test_links import address, read, routers


def test_a_router_that_is_busy_all_the_time_lets_newcomers_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handshake takes many turns of the loop, some for each frame, and a busy router processes a batch in each turn."""
    monkeypatch.setattr(frames, "SECONDS_TO_PROVE", 0.7)

    async def main() -> None:
        async with routers("a") as [router]:
            process = router._process

            def process_slowly(inputs: Sequence[Input]) -> None:
                time.sleep(0.08)
                process(inputs)

            async def keep_busy() -> None:
                while True:
                    await router._queue.submit([])
                    await asyncio.sleep(0)

            router._process = process_slowly
            busy = asyncio.ensure_future(keep_busy())
            try:
                async with Client(address(router), "ada", patience=15) as ada:
                    await ada.register({"jazz"})
            finally:
                busy.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Client, Tail])
def test_a_router_that_falls_silent_is_connected_again(
    kind: type[Client | Tail], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "SECONDS_OF_SILENCE", 0.2)
    n_served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_served
        await welcome(reader, writer, Hello.of(Role.ROUTER, "a", ""), Secrets())
        for _ in range(2):
            writer.write(ready_frame(1, 0))
            await read_expected(reader, FrameKind.READY)
        n_served += 1
        await reader.read()  # until the other end has closed the connection
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with (
            asyncio.timeout(20),
            kind(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", "ada"),
        ):
            while n_served < 2:
                await asyncio.sleep(0.01)
        server.close()

    asyncio.run(main())


def test_a_connection_that_cannot_send_any_more_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    next_messages = Connection.next_messages

    def fail_once(connection: Connection) -> list[bytes]:
        if connection.peer.role is Role.TAIL and connection.session.kept:
            monkeypatch.setattr(Connection, "next_messages", next_messages)
            raise RuntimeError("a defect")
        return next_messages(connection)

    monkeypatch.setattr(Connection, "next_messages", fail_once)

    async def main() -> None:
        async with routers("a") as [router], Client(address(router), "ada") as ada:
            await ada.register({"jazz"})
            await ada.notify({"jazz"}, b"x")
            await ada.flush()
            assert await read(router, "ada", 1) == [b"x"]

    asyncio.run(main())
    assert "a connection closes: RuntimeError('a defect')" in caplog.messages


def test_what_came_over_an_earlier_connection_does_not_stop_a_later_one() -> None:
    """The acknowledgement of an earlier connection may be processed after the handshake of the later one."""

    async def main() -> None:
        session = Session(1000)
        for number in range(6):
            session.put(b"%d" % number)
        session.acknowledge(1)
        later = Connection(Peer(Role.ROUTER, "b"), Writer(), session, 0, False)  # type: ignore[arg-type]
        session.acknowledge(4)
        assert later.next_messages() == [b"4", b"5"]
        assert later.next_messages() == []
        session.put(b"6" * 100)  # more may not be on the way
        assert (later.next_messages(), later.sent) == ([b"6" * 100], 7)
        session.put(b"7")
        assert later.next_messages() == []
        session.acknowledge(7)
        assert later.next_messages() == [b"7"]

    asyncio.run(main())


class Writer:
    """A writer that nobody reads."""

    def write(self, data: bytes) -> None:
        pass


def test_messages_of_a_connection_that_was_replaced_come_over_the_new_one() -> None:
    async def main() -> None:
        wish = bytes([MessageKind.REGISTER]) + texts_to_bytes(["jazz"])
        async with routers("a") as [router]:
            router._answer_all = lambda: None  # type: ignore[method-assign]  # it would let go
            router._is_free.clear()
            _, old = await connected(router, Role.CLIENT, "ada/1")
            old.write(data_frame(0, [wish]))
            await asyncio.sleep(0.1)  # the router waits before it takes the message
            _, new = await connected(router, Role.CLIENT, "ada/1")
            router._is_free.set()
            await asyncio.sleep(0.1)
            assert len(router.station.router.applications) == 0
            new.write(data_frame(0, [wish]))
            async with asyncio.timeout(20):
                while not len(router.station.router.applications):
                    await asyncio.sleep(0.01)
            for writer in (old, new):
                writer.close()

    asyncio.run(main())


def test_a_question_that_was_given_up_does_not_take_the_next_answer() -> None:
    async def main() -> None:
        async with routers("a") as [router], Client(address(router), "ada") as ada:
            await ada.flush()
            while ada._writer is None:
                await asyncio.sleep(0.01)
            first = asyncio.ensure_future(ada.ask({"ask": "status"}))
            await asyncio.sleep(0)  # it is sent
            first.cancel()
            step = await ada.ask({"ask": "step", "tags": ["jazz"], "tree": 0})
            assert "keys" in step

    asyncio.run(main())


def test_all_questions_are_asked_again_after_a_reconnect() -> None:
    async def main() -> None:
        async with routers("a") as [router], Client(address(router), "ada") as ada:
            await ada.register({"jazz"})
            asked = [asyncio.ensure_future(ada.ask({"ask": "status"})) for _ in range(100)]
            await asyncio.sleep(0)
            for connection in list(router.connections.values()):
                connection.writer.transport.abort()
            async with asyncio.timeout(20):
                assert {one["name"] for one in await asyncio.gather(*asked)} == {"a"}

    asyncio.run(main())


def test_a_listener_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SECONDS_TO_PROVE", 0.1)

    async def never(*address: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", never)

    async def main() -> None:
        async with asyncio.timeout(20):
            with pytest.raises(TimeoutError):
                await connect("127.0.0.1", 7000)

    asyncio.run(main())


def test_a_socket_that_has_reached_itself_is_no_router(monkeypatch: pytest.MonkeyPatch) -> None:
    own = socket.socket()
    own.bind(("127.0.0.1", 0))
    own.connect(own.getsockname())
    open_connection = asyncio.open_connection

    async def main() -> None:
        monkeypatch.setattr(
            asyncio, "open_connection", lambda host, port: open_connection(sock=own)
        )
        with pytest.raises(ConnectionRefusedError, match="nobody listens"):
            await connect("127.0.0.1", 7000)

    with contextlib.closing(own):
        asyncio.run(main())
