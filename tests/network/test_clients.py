"""Clients and readers of routers that go away, are slow, or are there twice."""

from __future__ import annotations

import asyncio
import logging

import pytest

from matchyard.network.client import Client, Tail
from matchyard.network.frames import LinkError
from matchyard.network.links import RouterServer
from matchyard.network.peers import Role
from matchyard.network.settings import Settings
from tests.network.test_links import FREE, SETTINGS, address, quiet, read, routers


def test_who_reads_a_few_packets_gets_the_others_next_time() -> None:
    async def main() -> None:
        async with routers("a") as [router]:
            async with Client(address(router), "ada") as ada:
                await ada.register({"jazz"})
                for number in range(6):
                    await ada.notify({"jazz"}, b"%d" % number)
            assert await read(router, "ada", 2) == [b"0", b"1"]
            assert await read(router, "ada", 4) == [b"2", b"3", b"4", b"5"]

    asyncio.run(main())


def test_of_two_readers_for_one_application_the_newer_one_reads() -> None:
    async def main() -> None:
        async with routers("a") as [router], Client(address(router), "ada") as ada:
            await ada.register({"jazz"})
            async with Tail(address(router), "ada") as first:
                waiting = asyncio.ensure_future(anext(aiter(first)))
                await asyncio.sleep(0.2)
                reading = asyncio.ensure_future(read(router, "ada", 1))
                with pytest.raises(LinkError, match="connected again from elsewhere"):
                    await waiting
                await ada.notify({"jazz"}, b"x")
                await ada.flush()
                assert await reading == [b"x"]

    asyncio.run(main())


@pytest.mark.parametrize("n_before", [1, 5])
def test_a_client_goes_on_with_a_router_that_has_lost_its_state(n_before: int) -> None:
    async def main() -> None:
        router = RouterServer(FREE, [], "a", settings=SETTINGS)
        await router.start()
        port, got = router.port, list[bytes]()

        async def listen() -> None:
            async with Tail(f"127.0.0.1:{port}", "ada") as tail:
                async for packet in tail:
                    got.append(packet.payload)

        async with Client(f"127.0.0.1:{port}", "ada") as ada:
            await ada.register(*({"jazz"} for _ in range(n_before)))
            reading = asyncio.ensure_future(listen())
            await asyncio.sleep(0.1)
            await router.stop()
            router = RouterServer(f"127.0.0.1:{port}", [], "a", settings=SETTINGS)
            await router.start()
            await ada.register({"jazz"})
            for number in range(3):
                await ada.notify({"jazz"}, b"%d" % number)
            await asyncio.wait_for(ada.flush(), 10)
        async with asyncio.timeout(10):
            while len(got) < 3:
                await asyncio.sleep(0.01)
        assert got == [b"0", b"1", b"2"]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await router.stop()

    asyncio.run(main())


def test_a_slow_reader_holds_back_who_sends_across_a_link() -> None:
    async def main() -> None:
        async with routers("a", "b") as found:
            async with Client(address(found[1]), "ada") as ada:
                await ada.register({"jazz"})
            await quiet(found)
            n_read = 0

            async def read_slowly() -> None:
                nonlocal n_read
                async with Tail(address(found[1]), "ada") as tail:
                    async for _ in tail:
                        n_read += 1
                        if n_read == 1500:
                            return
                        if n_read % 50 == 0:
                            await asyncio.sleep(0.05)

            reading = asyncio.ensure_future(read_slowly())
            async with Client(address(found[0]), "bob") as bob:
                for _ in range(1500):
                    await bob.notify({"jazz"}, bytes(10_000))
            await asyncio.wait_for(reading, 60)
            sessions = [one for router in found for one in router.station.sessions.values()]
            assert sum(one.dropped for one in sessions) == 0

    asyncio.run(main())


def test_neighbours_that_connect_to_each_other_stay_connected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        first = RouterServer(FREE, [], "a", settings=SETTINGS)
        await first.start()
        second = RouterServer(FREE, [address(first)], "b", settings=SETTINGS)
        await second.start()
        first._start(first._keep_connected("127.0.0.1", second.port))
        await asyncio.sleep(1.5)
        assert (first.connected(), second.connected()) == (["b"], ["a"])
        await first.stop()
        await second.stop()

    with caplog.at_level(logging.INFO, "matchyard"):
        asyncio.run(main())
    assert sum(record.message.endswith(" connected") for record in caplog.records) < 10


def test_a_message_longer_than_a_router_takes_is_refused_in_words() -> None:
    small = Settings(trees=1, message_bytes=1000)

    async def main() -> None:
        router = RouterServer(FREE, [], "a", settings=small)
        await router.start()
        async with Client(address(router), "ada") as ada:
            await ada.notify({"jazz"}, bytes(2000))
            with pytest.raises(LinkError, match="expected at most 1000"):
                await ada.flush()
        async with Client(address(router), "bob") as bob:
            await bob.register({"jazz"})
        assert {peer.role for peer in router.station.sessions} <= {Role.CLIENT}
        await router.stop()

    asyncio.run(main())


def test_a_question_to_a_listener_that_says_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matchyard.network.frames.SECONDS_TO_PROVE", 0.2)

    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LinkError, match="TimeoutError"):
            async with Client(f"127.0.0.1:{port}", "ada", patience=0.3) as client:
                await client.ask({"ask": "status"})
        server.close()
        await asyncio.sleep(0.1)

    asyncio.run(main())
