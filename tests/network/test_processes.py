"""Routers in processes of their own, which are killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from matchyard.bench.demo import network
from matchyard.network.client import Client, Tail
from matchyard.network.processes import RouterProcesses


def test_routers_that_are_killed_lose_nothing_and_send_nothing_twice(tmp_path: Path) -> None:
    async def main(routers: RouterProcesses) -> list[bytes]:
        await routers.settled()
        async with Client(routers.address("c"), "ada") as ada:
            await ada.register({"jazz"})
        await routers.settled()
        got = list[bytes]()

        async def read() -> None:
            async with Tail(routers.address("c"), "ada") as tail:
                async for packet in tail:
                    got.append(packet.payload)
                    if len(got) == 3000:
                        return

        reading = asyncio.ensure_future(read())
        async with Client(routers.address("a"), "bob") as bob:
            for number in range(3000):
                await bob.notify({"jazz", "live"}, b"%d" % number)
                if number in (1000, 2000):
                    await bob.flush()
                    routers.kill("b" if number == 1000 else "c")
                    routers.start("b" if number == 1000 else "c")
        await asyncio.wait_for(reading, 60)
        [status] = [one for one in await routers.settled() if one["name"] == "c"]
        assert status["registrations"] == 1
        return got

    with RouterProcesses("abc", [("a", "b"), ("b", "c")], tmp_path, trees=2) as routers:
        assert asyncio.run(main(routers)) == [b"%d" % number for number in range(3000)]


def matchyard(*arguments: str, text: str = "") -> str:
    command = [sys.executable, "-m", "matchyard", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, input=text, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_talk_to_a_router_that_runs(tmp_path: Path) -> None:
    with RouterProcesses("a", [], tmp_path, trees=1) as routers:
        asyncio.run(routers.settled())
        at = ("--router", routers.address("a"))
        matchyard("register", "jazz live", "rock", "--key", "ada", *at)
        lines = '{"tags": ["jazz", "live"], "payload": "tonight"}\nrock roll\n\npop\n'
        matchyard("notify", "-", *at, text=lines)
        told = matchyard("tail", "--key", "ada", "--count", "2", "--json", *at)
        assert [json.loads(line)["payload"] for line in told.splitlines()] == ["tonight", ""]
        status = json.loads(matchyard("status", "--json", *at))
        assert (status["registrations"], status["counts"]["delivered"]) == (2, 2)


def test_a_demo_has_a_map_of_ten_routers_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATCHYARD_DATA", raising=False)
    names, links, where = network._places()
    assert (len(names), len(links), where) == (10, 12, "a made-up map")


@pytest.mark.slow
def test_the_demo_of_routers_checks_itself(tmp_path: Path) -> None:
    told = matchyard("demo", "network", "--seconds", "8", "-o", str(tmp_path / "demo"))
    assert "each once, and no others" in " ".join(told.split())
