"""Ten routers in processes, killed repeatedly, under a million notifications and 100 thousand registrations.

    python -m benchmarks.scale.router_processes [--notifications 1000000] [--changes 100000] [--kills 20]
    python -m benchmarks.scale.router_processes --hops 3 [--notifications 1000000]

With --hops, it sends notifications through a line of routers, and prints the CPU time of a router for each.
Some applications keep their registrations; each must get exactly its notifications, each once. Other applications
register and withdraw all the time; their registrations are counted at the end. Results are appended to
benchmarks/results/network.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from matchyard.bench.compare.machine import describe
from matchyard.network.client import Client, Tail
from matchyard.network.processes import RouterProcesses

RESULTS = Path(__file__).parent.parent / "results" / "network.jsonl"
N_ROUTERS, N_TOPICS, N_READERS, N_CHANGERS = 10, 500, 20, 20
LINKS = [
    (0, 1),
    (1, 2),
    (2, 3),
    (3, 4),
    (4, 5),
    (5, 6),
    (6, 7),
    (7, 8),
    (8, 9),
    (9, 0),
    (0, 5),
    (2, 7),
]


class Run:
    def __init__(self, routers: RouterProcesses, args: argparse.Namespace) -> None:
        self.routers, self.args = routers, args
        self.n_sent = 0
        self.senders: list[Client] = []
        self.is_done = False
        self.got: dict[int, Counter[int]] = {reader: Counter() for reader in range(N_READERS)}
        self.left: dict[int, list[frozenset[str]]] = {}

    def n_accepted(self) -> int:
        return sum(client.n_accepted for client in self.senders)

    def home(self, number: int) -> str:
        return self.routers.names[number % N_ROUTERS]

    def wants(self, reader: int) -> set[int]:
        """The topics of a reader: each topic has one or two readers."""
        return {
            topic
            for topic in range(N_TOPICS)
            if topic % N_READERS == reader or topic % 37 == reader
        }

    async def register_readers(self) -> None:
        for reader in self.got:
            async with Client(self.routers.address(self.home(reader)), f"reader{reader}") as client:
                await client.register(*({f"topic{topic}"} for topic in sorted(self.wants(reader))))

    async def read(self, reader: int) -> None:
        async with Tail(
            self.routers.address(self.home(reader)), f"reader{reader}", patience=120
        ) as tail:
            async for packet in tail:
                self.got[reader][int(packet.payload)] += 1

    async def send(self, sender: int) -> None:
        """Send a share of all notifications, from one router."""
        numbers = range(sender, self.args.notifications, N_ROUTERS)
        async with Client(
            self.routers.address(self.home(sender)), f"sender{sender}", patience=120
        ) as client:
            self.senders.append(client)
            for number in numbers:
                tags = {
                    f"topic{number % N_TOPICS}",
                    f"about{number % 97}",
                    "news",
                    f"day{number % 7}",
                }
                await client.notify(tags, b"%d" % number)
                self.n_sent += 1
                if self.n_sent % 2000 == 0:
                    await asyncio.sleep(0)
            await client.flush()

    async def change(self, changer: int) -> None:
        """Register and withdraw, and record the remaining registrations."""
        chance, mine = random.Random(changer), list[frozenset[str]]()
        n_changes = self.args.changes // N_CHANGERS
        async with Client(
            self.routers.address(self.home(changer)), f"changer{changer}", patience=120
        ) as client:
            for _ in range(n_changes // 50):
                came, gone = list[frozenset[str]](), list[frozenset[str]]()
                for _ in range(50):
                    if mine and chance.random() < 0.5:
                        gone.append(mine.pop(chance.randrange(len(mine))))
                    else:
                        some = frozenset(
                            {f"rare{chance.randrange(5000)}", f"about{chance.randrange(97)}"}
                        )
                        came.append(some)
                await client.withdraw(*gone)
                await client.register(*came)
                mine += came
        self.left[changer] = mine

    async def kill(self) -> None:
        chance = random.Random(7)
        for number in range(self.args.kills):
            goal = (number + 1) * self.args.notifications // (self.args.kills + 1)
            while self.n_accepted() < goal and not self.is_done:
                await asyncio.sleep(0.05)
            name = chance.choice(self.routers.names)
            self.routers.kill(name)
            await asyncio.sleep(chance.choice([0, 0.2, 1.0]))
            self.routers.start(name)
            print(
                f"  kill {number + 1}: {name} after {self.n_accepted():,} notifications", flush=True
            )

    def n_expected(self) -> int:
        per_topic = [
            sum(topic in self.wants(reader) for reader in self.got) for topic in range(N_TOPICS)
        ]
        return sum(per_topic[number % N_TOPICS] for number in range(self.args.notifications))

    def check(self) -> None:
        """Check that every reader has exactly its notifications, each once."""
        for reader, got in self.got.items():
            wanted = self.wants(reader)
            missing = sum(
                number not in got
                for number in range(self.args.notifications)
                if number % N_TOPICS in wanted
            )
            twice = sum(count - 1 for count in got.values())
            wrong = sum(number % N_TOPICS not in wanted for number in got)
            if missing or twice or wrong:
                raise SystemExit(f"reader{reader}: {missing} missing, {twice} twice, {wrong} wrong")


async def main(args: argparse.Namespace) -> None:
    names = [f"r{number}" for number in range(N_ROUTERS)]
    folder = Path(tempfile.mkdtemp(prefix="routers"))
    with RouterProcesses(names, [(names[a], names[b]) for a, b in LINKS], folder) as routers:
        run = Run(routers, args)
        await routers.settled()
        await run.register_readers()
        await routers.settled()
        print(f"settled; state in {folder}", flush=True)
        started = time.time()
        reading = [asyncio.ensure_future(run.read(reader)) for reader in run.got]
        killing = asyncio.ensure_future(run.kill())
        await asyncio.gather(
            *(run.send(sender) for sender in range(N_ROUTERS)),
            *(run.change(changer) for changer in range(N_CHANGERS)),
        )
        accepted = time.time() - started
        run.is_done = True
        await killing
        print(f"accepted after {accepted:.1f} s", flush=True)
        n_expected, patience = run.n_expected(), time.time() + 300
        while sum(map(Counter.total, run.got.values())) < n_expected and time.time() < patience:
            await asyncio.sleep(0.2)
        seconds = time.time() - started
        status = await routers.settled()
        await asyncio.sleep(1)
        for task in reading:
            task.cancel()
        run.check()
        n_left = sum(len(mine) for mine in run.left.values())
        n_there = sum(one["registrations"] for one in status) - sum(
            len(run.wants(r)) for r in run.got
        )
        if n_left != n_there:
            raise SystemExit(
                f"{n_there} registrations are there; {n_left} were acknowledged and not withdrawn"
            )
        dropped = sum(one["dropped_for_applications"] for one in status)
        result = {
            "what": "router processes",
            "notifications": args.notifications,
            "changes": args.changes,
            "kills": args.kills,
            "deliveries": n_expected,
            "seconds": round(seconds, 1),
            "notifications_per_second": round(args.notifications / seconds),
            "driver_cpu_seconds": round(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), 1),
            "registrations_left": n_left,
            "dropped": dropped,
            **describe(),
        }
    keep(result)


async def through_a_line(args: argparse.Namespace) -> None:
    names = [f"r{number}" for number in range(args.hops + 1)]
    folder, n_read = Path(tempfile.mkdtemp(prefix="routers")), 0
    with RouterProcesses(names, list(pairwise(names)), folder) as routers:
        await routers.settled()
        async with Client(routers.address(names[-1]), "reader") as client:
            await client.register({"topic7"})
        await routers.settled()

        async def read() -> None:
            nonlocal n_read
            async with Tail(routers.address(names[-1]), "reader") as tail:
                async for packet in tail:
                    if int(packet.payload) != n_read:
                        raise SystemExit(f"notification {packet.payload!r}; expected {n_read}")
                    n_read += 1
                    if n_read == args.notifications:
                        return

        reading = asyncio.ensure_future(read())
        started, before = time.time(), {name: routers.cpu_seconds(name) for name in names}
        async with Client(routers.address(names[0]), "sender") as client:
            for number in range(args.notifications):
                await client.notify(
                    {"topic7", f"about{number % 97}", "news", "today"}, b"%d" % number
                )
                if number % 1000 == 0:
                    await asyncio.sleep(0)
        await reading
        seconds = time.time() - started
        cpu = {
            name: round((routers.cpu_seconds(name) - before[name]) / args.notifications * 1e6, 2)
            for name in names
        }
    keep(
        {
            "what": "notifications through a line of router processes",
            "notifications": args.notifications,
            "hops": args.hops,
            "seconds": round(seconds, 1),
            "notifications_per_second": round(args.notifications / seconds),
            "cpu_us_per_notification": cpu,
            **describe(),
        }
    )


def keep(result: dict[str, object]) -> None:
    print(json.dumps(result))
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notifications", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--hops", type=int, help="send through a line of this many links instead")
    given = parser.parse_args()
    asyncio.run(through_a_line(given) if given.hops else main(given))
