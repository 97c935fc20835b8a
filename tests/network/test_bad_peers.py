"""Peers that send garbage, too much, or nothing: refused or bounded, and others go on."""

from __future__ import annotations

import asyncio
import random

import pytest

from matchyard.network.client import Client
from matchyard.network.frames import (
    FrameKind,
    Hello,
    LinkError,
    Secrets,
    data_frame,
    frame,
    greet,
    read_data,
    read_expected,
    read_frame,
    ready_frame,
)
from matchyard.network.links import RouterServer
from matchyard.network.packet import Kind, Packet, PacketError
from matchyard.network.peers import Input, InputKind, Peer, Role
from tests.network.test_links import FREE, SETTINGS, address, read, routers
from tests.network.test_station import news, wish


async def connected(
    router: RouterServer, role: Role, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A peer after its handshake, for a test that misbehaves from here on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
    await greet(reader, writer, Hello.of(role, name, SETTINGS.common()), Secrets())
    writer.write(ready_frame(1, 0))
    await read_expected(reader, FrameKind.READY)
    writer.write(ready_frame(1, 0))
    await read_expected(reader, FrameKind.READY)
    return reader, writer


BAD = {
    "no hello": b"GET / HTTP/1.1\r\n\r\n",
    "a long frame": b"\xff\xff\xff\xff\x01",
    "an empty frame": b"\x00\x00\x00\x00\x01",
    "no such kind": frame(FrameKind.HELLO)[:4] + b"\x63",
    "proof before hello": frame(FrameKind.PROOF, bytes(32)),
    "a short hello": frame(FrameKind.HELLO, b"matchyrd"),
    "another form": frame(FrameKind.HELLO, b"matchyrd\x09\x01" + bytes(16) + b"\x00\x00"),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_somebody_who_speaks_otherwise_is_refused_and_others_go_on(data: bytes) -> None:
    async def main() -> None:
        async with routers("a") as [router]:
            reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
            writer.write(data)
            async with asyncio.timeout(15):
                answer = await reader.read()  # until the router has closed the connection
            assert b"expected" in answer or b"hello" in answer
            writer.close()
            async with Client(address(router), "ada") as ada:
                await ada.register({"jazz"})

    asyncio.run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x04",
        frame(FrameKind.DATA, b"short"),
        data_frame(0, [b"x"])[:-1] + b"",
        frame(FrameKind.ACK, b"\xff" * 12),
        frame(FrameKind.HELLO),
        frame(FrameKind.QUERY, b"{}"),
    ],
)
def test_a_neighbour_that_breaks_the_protocol_is_cut_off(data: bytes) -> None:
    async def main() -> None:
        async with routers("a") as [router]:
            reader, writer = await connected(router, Role.ROUTER, "b")
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(15):
                await reader.read()
            writer.close()
            async with Client(address(router), "ada") as ada:
                await ada.register({"jazz"})

    asyncio.run(main())


def test_a_handshake_from_before_a_loss_of_state_acknowledges_nothing() -> None:
    """The last words of a process may come when its successor, which has lost the state, has met the router."""

    async def shaken(
        router: RouterServer, incarnation: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
        await greet(reader, writer, Hello.of(Role.ROUTER, "b", SETTINGS.common()), Secrets())
        writer.write(ready_frame(incarnation, 0))
        for _ in range(2):
            await read_expected(reader, FrameKind.READY)
        return reader, writer

    async def main() -> None:
        async with routers("a") as [router], asyncio.timeout(15):
            reader, former = await shaken(router, 1)
            _, later = await shaken(router, 2)
            session = router.station.sessions[Peer(Role.ROUTER, "b")]
            n_kept = len(session.kept)
            former.write(ready_frame(1, 1))
            assert b"lost its state" in await reader.read()
            assert (session.first, len(session.kept)) == (0, n_kept)
            assert n_kept > 0
            for writer in (former, later):
                writer.close()

    asyncio.run(main())


def test_a_reader_that_stops_reading_is_bounded_and_others_go_on() -> None:
    async def main() -> None:
        async with routers("a") as [router]:
            async with Client(address(router), "ada") as ada, Client(address(router), "eve") as eve:
                await ada.register({"jazz"})
                await eve.register({"jazz"})
            _, stuck = await connected(router, Role.TAIL, "eve")
            reading = asyncio.ensure_future(read(router, "ada", 10000))
            async with Client(address(router), "bob") as bob:
                for _ in range(10000):
                    await bob.notify({"jazz"}, bytes(1000))
            assert len(await reading) == 10000
            session = next(
                one for peer, one in router.station.sessions.items() if peer.name == "eve"
            )
            assert session.n_bytes <= SETTINGS.session_bytes
            assert session.dropped > 0
            stuck.close()

    asyncio.run(main())


def fuzz_frames(n_frames: int) -> None:
    """Frames with bytes that are changed, from peers that know the secret: read, or refused in words."""
    router = RouterServer(FREE, [], "a", settings=SETTINGS)
    chance = random.Random(3)
    plain = Packet(
        Kind.NOTIFICATION, frozenset({"jazz", "live"}), sender="ada", version=1
    ).to_bytes()
    seeds = [
        data_frame(0, [wish("jazz"), news("jazz", "live", payload=b"x"), b"\x01" + plain]),
        data_frame(0, [b"\x02" + bytes(11), b"\x03" + bytes(8) + b"\x00\x01\x00\x01b"]),
        frame(FrameKind.ACK, bytes(12)),
    ]

    async def main() -> None:
        n_read = n_refused = 0
        peers = [Peer(Role.ROUTER, "b"), Peer(Role.CLIENT, "ada/1")]
        router.station.process([Input(peer, InputKind.MEETING, 1) for peer in peers])
        for _ in range(n_frames):
            data = bytearray(chance.choice(seeds))
            for _ in range(chance.randint(1, 5)):
                data[chance.randrange(len(data))] = chance.choice(
                    (0, 1, 255, chance.randrange(256))
                )
            reader = asyncio.StreamReader()
            reader.feed_data(bytes(data))
            reader.feed_eof()
            try:
                kind, content = await read_frame(reader, 1 << 20)
                if kind is FrameKind.DATA:
                    peer = chance.choice(peers)
                    expected = router.station.session(peer).expected
                    _, messages = read_data(content)
                    router.station.process(
                        [
                            Input(peer, InputKind.MESSAGE, expected + n, m)
                            for n, m in enumerate(messages)
                        ]
                    )
                n_read += 1
            except (LinkError, PacketError, EOFError):
                n_refused += 1
        assert min(n_read, n_refused) > n_frames // 100

    asyncio.run(main())
    assert router.station.refused > 0


def test_fuzzed_frames_are_read_or_refused() -> None:
    fuzz_frames(1000)


@pytest.mark.slow
def test_a_million_fuzzed_frames_are_read_or_refused() -> None:
    fuzz_frames(1_000_000)
