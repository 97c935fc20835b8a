"""The network demo: ten routers in processes, on the map of a provider, forward tweets by hashtags.

    routers in processes ◀── changing registrations, tweets ── users who read their tweets

Users at all routers register interests. Some users keep them; others change them all the time. Tweets
enter at any router. One router is killed and starts again. In the end, the deliveries are compared with
the matches of a flat index of all interests.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import re
import shutil
import time
from collections import Counter, deque
from pathlib import Path

from rich.console import Console

import matchyard as my
from matchyard.bench.demo.network_story import Story
from matchyard.bench.demo.network_view import NetworkView
from matchyard.errors import UsageError
from matchyard.network.client import Client, Tail
from matchyard.network.processes import RouterProcesses
from matchyard.routing import from_links, largest_component

_MARK = ".matchyard-demo"
_MAP = "topology/rocketfuel/1755.r0.cch.gz"  # Ebone, whose routers were in cities of Europe
_CITIES = ["Oslo", "Rome", "Paris", "Wien", "Bern", "Kiel", "Lyon", "Graz", "Bonn", "Genua"]
_RING = [
    (0, 5),
    (5, 8),
    (8, 2),
    (2, 6),
    (6, 4),
    (4, 9),
    (9, 1),
    (1, 7),
    (7, 3),
    (3, 8),
    (4, 3),
    (2, 4),
]
_N_LOYAL, _N_FICKLE = 20, 10  # users who keep their interests, and users who change them
_INTERESTS = 150  # of a user
_LAST = 500  # tweets after everything has settled


def run(seconds: float, output: Path, seed: int) -> bool:
    """Run the demo; False if the check finds a difference."""
    if seconds <= 0:
        raise UsageError(f"a demo for {seconds} s; expected more than none")
    _clear(output)
    console = Console()
    names, links, where = _places()
    tweets, interests, what = _tweets(seed)
    console.print(
        f"[bold]Matchyard[/bold] {my.__version__}: {len(names)} routers, {where}; {what}",
        highlight=False,
    )
    with RouterProcesses(names, links, output / "routers") as routers:
        story = Story(routers, tweets, seconds)
        with NetworkView(console, story) as view:
            is_same, lines = asyncio.run(_play(story, view, interests, random.Random(seed)))
    for line in lines:
        console.print(line, highlight=False, markup=False)
    return is_same


def _clear(output: Path) -> None:
    if output.exists():
        if not (output / _MARK).exists():
            raise UsageError(f"{output} exists and is not of a demo; expected another folder (-o)")
        shutil.rmtree(output)
    output.mkdir(parents=True)
    (output / _MARK).touch()


def _places() -> tuple[list[str], list[tuple[str, str]], str]:
    """Ten cities and their links: from a Rocketfuel map, or made up without the data."""
    path = Path(os.environ.get("MATCHYARD_DATA", ""), _MAP)
    if not (os.environ.get("MATCHYARD_DATA") and path.exists()):
        return _CITIES, [(_CITIES[a], _CITIES[b]) for a, b in _RING], "a made-up map"
    city, near = dict[str, str](), list[tuple[str, str]]()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            header = re.match(r"(\d+) @([^,\s]+)", line)
            if header:
                city[header[1]] = header[2].replace("+", " ")
                near += [(header[1], other) for other in re.findall(r"<(\d+)>", line)]
    links = {(city[a], city[b]) for a, b in near if a in city and b in city and city[a] < city[b]}
    n_links = Counter(end for link in links for end in link)
    chosen = [name for name, _ in n_links.most_common(10)]
    inside = sorted(link for link in links if set(link) <= set(chosen))
    whole = largest_component(
        from_links([(chosen.index(a), chosen.index(b)) for a, b in inside], names=chosen)
    )
    ends = [(whole.names[a], whole.names[b]) for a, b in whole.ends().tolist()]
    return list(whole.names), ends, "a city each, of Rocketfuel's map of Ebone (AS1755)"


def _tweets(seed: int) -> tuple[list[frozenset[str]], list[frozenset[str]], str]:
    """Tweets, interests, and a description of both."""
    n_interests = 4 * (_N_LOYAL + _N_FICKLE) * _INTERESTS
    has_data = bool(os.environ.get("MATCHYARD_DATA"))
    name = "congress" if has_data else "twitter-popular"
    work = my.workload("tags", name, n_interests, seed)
    interests = [
        frozenset(tags) for tags in work.subscriptions(0, n_interests)[0].to_pylist() if tags
    ]
    tweets = [frozenset(tags) for tags in work.events(20_000).to_pylist() if tags]
    what = "hashtags of the US Congress" if has_data else "made-up hashtags"
    return tweets, interests, what


# -------------------------------------------------------------------- the play


async def _play(
    story: Story, view: NetworkView, interests: list[frozenset[str]], chance: random.Random
) -> tuple[bool, list[str]]:
    watching = asyncio.ensure_future(_watch(story, view))
    reading = list[asyncio.Future[None]]()
    try:
        await story.routers.settled()
        story.say("all routers have one map and have grown the same trees from it")
        story.state = "registering"
        await _register_all(story, interests, chance)
        await story.routers.settled()
        story.say(f"{sum(map(Counter.total, story.wanted.values())):,} interests have settled")
        reading = [asyncio.ensure_future(_read(story, user)) for user in story.wanted]
        story.streaming_since, story.state = time.monotonic(), "tweets arrive"
        await asyncio.gather(
            _send(story, chance, story.seconds),
            _change(story, interests, random.Random(chance.random())),
            _kill(story, random.Random(chance.random())),
            _trace_now_and_then(story),
        )
        story.state = "settling"
        await _arrived(story)
        n_before = len(story.sent)
        story.state = "the last tweets, with all changes settled"
        await _send(story, chance, None)
        await _arrived(story)
        return _check(story, n_before)
    finally:
        for task in (watching, *reading):
            task.cancel()
        await asyncio.gather(watching, *reading, return_exceptions=True)


async def _register_all(
    story: Story, interests: list[frozenset[str]], chance: random.Random
) -> None:
    async def one(number: int, user: str) -> None:
        home = story.homes[user] = story.routers.names[number % len(story.routers.names)]
        mine = chance.sample(interests, _INTERESTS)
        story.wanted[user] = Counter(mine)
        story.got[user] = []
        async with Client(story.routers.address(home), user, patience=60) as client:
            await client.register(*mine)

    users = [f"loyal{number}" for number in range(_N_LOYAL)]
    users += [f"fickle{number}" for number in range(_N_FICKLE)]
    await asyncio.gather(*(one(number, user) for number, user in enumerate(users)))


async def _read(story: Story, user: str) -> None:
    async with Tail(story.routers.address(story.homes[user]), user, patience=60) as tail:
        async for packet in tail:
            story.got[user].append(int(packet.payload))


async def _send(story: Story, chance: random.Random, seconds: float | None) -> None:
    """Send tweets to random routers, for some seconds; without a time, the last few."""

    async def from_one(name: str) -> None:
        async with Client(story.routers.address(name), f"source {name}", patience=60) as client:
            while seconds is None or story.elapsed() < seconds:
                for _ in range(25):
                    number = len(story.sent)
                    story.sent.append(number)
                    tweet = story.tweets[number % len(story.tweets)]
                    await client.notify(tweet, b"%d" % number)
                await client.flush()
                if seconds is None and len(story.sent) >= goal:
                    return
                await asyncio.sleep(0.02 * chance.random())

    goal = len(story.sent) + _LAST
    await asyncio.gather(*(from_one(name) for name in story.routers.names))


async def _change(story: Story, interests: list[frozenset[str]], chance: random.Random) -> None:
    """Let fickle users replace interests."""
    while story.elapsed() < story.seconds:
        user = f"fickle{chance.randrange(_N_FICKLE)}"
        mine = story.wanted[user]
        gone, came = (
            chance.sample(sorted(mine.elements(), key=sorted), 5),
            chance.sample(interests, 5),
        )
        async with Client(story.routers.address(story.homes[user]), user, patience=60) as client:
            await client.withdraw(*gone)
            await client.register(*came)
        mine.subtract(gone)
        story.wanted[user] = +mine + Counter(came)
        story.n_changes += 10
        await asyncio.sleep(0.05)


async def _kill(story: Story, chance: random.Random) -> None:
    """Kill a router in the middle, and start it again."""
    await asyncio.sleep(story.seconds * 0.35)
    busiest = max(story.status.values(), key=lambda one: one["counts"]["sent"], default=None)
    name = busiest["name"] if busiest else chance.choice(story.routers.names)
    story.routers.kill(name)
    story.down.add(name)
    story.say(f"router {name} was killed; its neighbours keep messages for it")
    await asyncio.sleep(min(3.0, story.seconds * 0.15))
    story.routers.start(name)
    status = await story.routers.status(name)
    story.down.discard(name)
    story.say(f"router {name} is back with its {status['registrations']:,} registrations")


async def _watch(story: Story, view: NetworkView) -> None:
    """Poll the status of the routers."""

    async def ask(name: str) -> None:
        async with Client(story.routers.address(name), "watch", patience=3600) as client:
            while True:
                story.status[name] = await client.ask({"ask": "status"})
                await asyncio.sleep(0.5)

    asking = [asyncio.ensure_future(ask(name)) for name in story.routers.names]
    try:
        while True:
            story.rates.append((time.monotonic(), len(story.sent), story.n_got()))
            view.tick()
            await asyncio.sleep(0.25)
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _trace_now_and_then(story: Story) -> None:
    """Follow a delivered tweet, router by router."""
    while story.elapsed() < story.seconds - 1:
        await asyncio.sleep(1.5)
        users = [user for user, got in story.got.items() if got]
        if users and not story.down:
            number = story.got[users[len(story.sent) % len(users)]][-1]
            start = story.routers.names[number % len(story.routers.names)]
            try:
                story.trace = await _steps(story, story.tweets[number % len(story.tweets)], start)
            except (OSError, TimeoutError):
                continue


async def _steps(story: Story, tweet: frozenset[str], start: str, tree: int = 0) -> list[str]:
    """The actions of each router for a tweet, from its first router on."""
    lines = [f"#{' #'.join(sorted(tweet))}, if it enters at {start}:"]
    waiting = deque([(start, "", 1)])
    while waiting and len(lines) < 12:
        name, came_from, depth = waiting.popleft()
        question = {"ask": "step", "tags": sorted(tweet), "tree": tree, "from": came_from}
        async with asyncio.timeout(3), Client(story.routers.address(name), "trace") as client:
            answer = await client.ask(question)
        users = ", ".join(answer["keys"])
        onward = ", ".join(answer["to"])
        what = "; ".join(
            part
            for part in (f"to {onward}" if onward else "", f"for {users}" if users else "")
            if part
        )
        lines.append(f"{'  ' * depth}{name}: {what or 'no receivers here or beyond'}")
        waiting.extend((one, name, depth + 1) for one in answer["to"])
    return lines


async def _arrived(story: Story) -> None:
    """Wait until routers are idle and users have read all tweets."""
    while True:
        status = await story.routers.settled()
        before = story.n_got()
        await asyncio.sleep(0.3)
        if before == story.n_got() and not any(one["waiting_for_applications"] for one in status):
            return


def _check(story: Story, n_before: int) -> tuple[bool, list[str]]:
    """Compare deliveries with a flat index: all tweets of loyal users, and the last tweets of all users."""
    index = my.TagIndex()
    for user, wanted in story.wanted.items():
        for tags in wanted.elements():
            index.add(tags, key=user)
    index.consolidate()
    should = {user: set[int]() for user in story.wanted}
    tweets = [story.tweets[number % len(story.tweets)] for number in story.sent]
    for number, users in enumerate(index.match_unique(tweets)):
        for user in users:
            if user.startswith("loyal") or number >= n_before:
                should[user].add(number)
    wrong = n_right = 0
    for user, got in story.got.items():
        counted = [number for number in got if user.startswith("loyal") or number >= n_before]
        n_right += len(should[user])
        wrong += len(should[user] ^ set(counted)) + len(counted) - len(set(counted))
    lines = [
        f"{len(story.sent):,} tweets, {story.n_got():,} deliveries to {len(story.got)} users at "
        f"{len(story.routers.names)} routers; {story.n_changes:,} changes of interests, one router killed"
    ]
    if wrong:
        return False, [*lines, f"WRONG: {wrong:,} deliveries differ from those of a flat index"]
    return True, [
        *lines,
        f"checked: the {n_right:,} deliveries that a flat index finds were made, each once, and no others",
    ]
