"""Routers in separate processes on this machine, for demonstrations and tests that kill them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from matchyard.network.client import Client
from matchyard.network.frames import LinkError


class RouterProcesses:
    """A router process for each name, with links between pairs of names.

    Use it as a context manager: leaving it kills all processes.
    """

    def __init__(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], folder: Path, trees: int = 4
    ) -> None:
        self.names, self._folder, self._trees = list(names), folder, trees
        self._ports = dict(zip(self.names, _free_ports(len(self.names)), strict=True))
        self._neighbours: dict[str, list[str]] = {name: [] for name in self.names}
        for low, high in links:
            self._neighbours[high].append(low)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for name in self.names:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def address(self, name: str) -> str:
        """The address at which a router listens."""
        return f"127.0.0.1:{self._ports[name]}"

    def start(self, name: str) -> None:
        """Start or restart a router."""
        command = [sys.executable, "-m", "matchyard", "router", "--name", name]
        command += ["--listen", self.address(name), "--trees", str(self._trees)]
        command += ["--state", str(self._folder / name)]
        for neighbour in self._neighbours[name]:
            command += ["--connect", self.address(neighbour)]
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """Kill a router by SIGKILL, without a chance to clean up."""
        self._running[name].kill()
        self._running[name].wait()

    def cpu_seconds(self, name: str) -> float:
        """The CPU time of a router since its start, on Linux; 0 elsewhere."""
        try:
            stat = Path(f"/proc/{self._running[name].pid}/stat").read_text()
        except OSError:
            return 0.0
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def status(self, name: str, patience: float = 300.0) -> dict[str, Any]:
        """The status of a router."""
        async with Client(self.address(name), "status", patience=patience) as client:
            return await client.ask({"ask": "status"})

    async def settled(self, patience: float = 300.0) -> list[dict[str, Any]]:
        """Wait until all routers share one map and no messages are waiting; return their statuses."""
        deadline, before = time.monotonic() + patience, None
        while True:
            statuses = await asyncio.gather(*(self.status(name, patience) for name in self.names))
            is_one = len({one["version"] for one in statuses}) == 1 and all(
                one["routers"] == len(self.names) for one in statuses
            )
            is_quiet = not any(
                link["waiting"] for one in statuses for link in one["neighbours"].values()
            )
            seen = [one["counts"]["received"] + one["counts"]["updates"] for one in statuses]
            if is_one and is_quiet and seen == before:
                return list(statuses)
            before = seen
            if time.monotonic() > deadline:
                raise LinkError(f"routers have not settled within {patience:.0f} seconds")
            await asyncio.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
