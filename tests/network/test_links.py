"""Routers over TCP: what arrives, who is let in, and what a bad peer can do."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from matchyard.errors import UsageError
from matchyard.network.addresses import is_loopback, parse_address
from matchyard.network.client import Client, Tail
from matchyard.network.frames import (
    Hello,
    LinkError,
    Secrets,
    greet,
)
from matchyard.network.links import RouterServer
from matchyard.network.packet import Kind
from matchyard.network.peers import Role
from matchyard.network.settings import Settings

SETTINGS = Settings(trees=2, session_bytes=4 << 20)
FREE = "127.0.0.1:0"


@contextlib.asynccontextmanager
async def routers(
    *names: str, secret: bytes = b"", state: Path | None = None
) -> AsyncIterator[list[RouterServer]]:
    """Routers in a line that have met."""
    found = list[RouterServer]()
    for name in names:
        near = [f"127.0.0.1:{found[-1].port}"] if found else []
        folder = None if state is None else state / name
        found.append(RouterServer(FREE, near, name, folder, secret, SETTINGS))
        await found[-1].start()
    try:
        async with asyncio.timeout(20):
            while len({one.station.router.plane.part.version for one in found}) > 1:
                await asyncio.sleep(0.01)
        yield found
    finally:
        for one in found:
            await one.stop()


def address(router: RouterServer) -> str:
    return f"127.0.0.1:{router.port}"


async def read(router: RouterServer, key: str, count: int, secret: bytes = b"") -> list[bytes]:
    found = list[bytes]()
    async with asyncio.timeout(20), Tail(address(router), key, secret) as tail:
        async for packet in tail:
            found.append(packet.payload)
            if len(found) == count:
                return found
    raise AssertionError("a tail does not end by itself")


async def quiet(found: list[RouterServer]) -> None:
    """Wait until nobody has anything to tell others."""
    async with asyncio.timeout(20):
        while any(
            one.kept
            for router in found
            for peer, one in router.station.sessions.items()
            if peer.role is Role.ROUTER
        ):
            await asyncio.sleep(0.01)


def test_notifications_arrive_once_and_in_order_through_three_routers() -> None:
    async def main() -> None:
        async with routers("a", "b", "c") as found:
            async with Client(address(found[2]), "ada") as ada:
                await ada.register({"jazz"}, "rock live")
                await ada.withdraw("rock live")
            await quiet(found)
            async with Client(address(found[0]), "bob") as bob:
                for number in range(3000):
                    await bob.notify({"jazz", f"x{number % 10}"}, b"%d" % number)
                    await bob.notify({"rock", "live"}, b"nobody")
            assert await read(found[2], "ada", 3000) == [b"%d" % one for one in range(3000)]
            status = await ask(found[1], {"ask": "status"})
            assert status["counts"]["sent"] == 3000
            assert status["neighbours"]["a"] == {"is_connected": True, "waiting": 0, "dropped": 0}
            step = await ask(found[0], {"ask": "step", "tags": ["jazz"], "tree": 0})
            assert (step["to"], step["keys"]) == (["b"], [])
            with pytest.raises(LinkError, match="no question"):
                await ask(found[0], {"ask": "weather"})

    asyncio.run(main())


async def ask(router: RouterServer, question: dict[str, object]) -> dict[str, object]:
    async with Client(address(router), "status") as client:
        return await client.ask(question)


def test_a_request_is_answered_and_then_a_cache_answers() -> None:
    async def main() -> None:
        async with (
            routers("a", "b", "c") as found,
            Client(address(found[2]), "shop") as shop,
            Client(address(found[0]), "ada") as ada,
        ):
            await shop.register({"paper"})
            await quiet(found)
            await ada.request({"paper", "pdf"}, identifier=b"n32")
            await ada.flush()
            async with asyncio.timeout(20), Tail(address(found[2]), "shop") as tail:
                async for packet in tail:
                    assert packet.kind is Kind.REQUEST
                    await shop.reply(packet, b"the paper")
                    break
            await shop.flush()
            assert await read(found[0], "ada", 1) == [b"the paper"]
            await ada.request({"paper", "pdf"}, identifier=b"n32")
            await ada.flush()
            assert await read(found[0], "ada", 1) == [b"the paper"]
            assert sum(one.station.router.counts.answered for one in found) == 1

    asyncio.run(main())


def test_a_router_that_stops_and_starts_again_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with routers("a", "b", state=tmp_path) as found:
            async with Client(address(found[1]), "ada") as ada:
                await ada.register({"jazz"})
            await quiet(found)
            port = found[0].port
            async with Client(address(found[0]), "bob", patience=20) as bob:
                await bob.notify({"jazz"}, b"one")
                await bob.flush()
                await found[0].stop()
                await bob.notify({"jazz"}, b"two")
                again = RouterServer(f"127.0.0.1:{port}", [], "a", tmp_path / "a", b"", SETTINGS)
                await again.start()
                found[0] = again
                await bob.flush()
            assert await read(found[1], "ada", 2) == [b"one", b"two"]

    asyncio.run(main())


@pytest.mark.parametrize("own", [b"", b"wrong"])
def test_who_does_not_know_the_secret_is_refused(own: bytes) -> None:
    async def main() -> None:
        async with routers("a", "b", secret=b"right") as found:
            with pytest.raises(LinkError, match="does not know the secret"):
                async with Client(address(found[0]), "eve", own) as eve:
                    await eve.register({"jazz"})
            async with Client(address(found[0]), "ada", b"right") as ada:
                await ada.register({"jazz"})
            assert len(found[0].station.router.applications) == 1

    asyncio.run(main())


def test_a_link_may_have_a_secret_of_its_own() -> None:
    async def main() -> None:
        shared = {"b": b"between a and b"}
        first = RouterServer(FREE, [], "a", settings=SETTINGS, secret=b"all", peer_secrets=shared)
        await first.start()
        wrong = RouterServer(FREE, [address(first)], "b", settings=SETTINGS, secret=b"all")
        right = RouterServer(
            FREE,
            [address(first)],
            "b",
            settings=SETTINGS,
            secret=b"other",
            peer_secrets={"a": b"between a and b"},
        )
        for second, expected in ((wrong, []), (right, ["b"])):
            await second.start()
            await asyncio.sleep(0.5)
            assert first.connected() == expected
            await second.stop()
        await first.stop()

    asyncio.run(main())


def test_a_router_with_other_settings_or_the_same_name_is_refused() -> None:
    async def main() -> None:
        async with routers("a") as [router]:
            for hello in (
                Hello.of(Role.ROUTER, "b", "other settings"),
                Hello.of(Role.ROUTER, "a", SETTINGS.common()),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
                with pytest.raises(LinkError, match=r"refused: (b has other|two routers)"):
                    await greet(reader, writer, hello, Secrets())
                writer.close()

    asyncio.run(main())


def test_metrics_are_text_that_prometheus_reads() -> None:
    async def main() -> str:
        router = RouterServer(FREE, [], "a", settings=SETTINGS, metrics_at="127.0.0.1:0")
        await router.start()
        async with Client(address(router), "ada") as ada:
            await ada.register({"jazz"})
            await ada.notify({"jazz"})
        assert router._page is not None
        port = router._page.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        await router.stop()
        return text

    head, _, body = asyncio.run(main()).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK")
    assert "matchyard_router_delivered_total 1\n" in body
    assert "matchyard_router_registrations 1\n" in body
    for line in body.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .*|[a-z_]+(\{neighbour=\".*\"\})? -?\d+", line), line


def test_addresses_beyond_this_machine_need_a_secret() -> None:
    assert parse_address("[::1]:70") == ("::1", 70)
    assert is_loopback("127.0.0.9")
    assert not is_loopback("example.org")
    for text in ("7000", "host:", ":7000", "host:99999", "host:x"):
        with pytest.raises(UsageError, match="expected host:port"):
            parse_address(text)
    with pytest.raises(UsageError, match="expected a secret"):
        RouterServer("0.0.0.0:7000")
    with pytest.raises(UsageError, match="expected a secret"):
        RouterServer(FREE, ["10.0.0.1:7000"])
    RouterServer("0.0.0.0:7000", secret=b"some")
