"""The main job, to watch: tweets stream past a million interests that change meanwhile."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

import matchyard as my
from matchyard.bench.report import short

_STEP = 8192  # tweets per step of the stream
_NEW_KEY = 1 << 40  # subscribers that join while the stream runs


class Stream:
    """A running index, the tweets that pass it, and what is worth showing of them."""

    def __init__(self, size: int, threads: int, seed: int) -> None:
        self.source = my.workload("tags", "twitter", size, seed)
        self.index = my.TagIndex(live=True, threads=threads)
        self.events = self.matches = self.changes = self.caught = 0
        self.match_s = 0.0
        self.rates: deque[float] = deque(maxlen=48)
        self.seen: deque[str] = deque(maxlen=6)
        self.log: deque[str] = deque(maxlen=4)

    def build(self) -> float:
        """Load the interests; seconds, generation left out."""
        seconds = 0.0
        for tags, keys in self.source.chunks():
            start = time.perf_counter()
            self.index.add_many(tags, keys)
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        self.index.consolidate()
        return seconds + time.perf_counter() - start

    def step(self, number: int) -> None:
        """Match the next tweets, and change a few interests."""
        tweets = self.source.events(_STEP, start=number * _STEP)
        self._change(number, tweets)
        start = time.perf_counter()
        found = self.index.match(tweets)
        seconds = time.perf_counter() - start
        work = found.work
        self.events += len(tweets)
        self.matches += work.matches
        self.match_s += seconds
        self.rates.append(len(tweets) / seconds)
        part = found.parts[0]
        first = part.keys[: part.event_start[1]]
        self.caught += int(sum((part.keys >= _NEW_KEY).sum() for part in found.parts))
        if number % 12 == 0:
            self._show(tweets[0].as_py(), [int(key) for key in first])

    def _change(self, number: int, tweets: pa.Array) -> None:
        """A subscriber joins with the tags of a tweet that is about to pass; an old one leaves."""
        if number % 25 == 10:
            tags = tweets[1].as_py()[:2]
            self.index.add(set(tags), key=_NEW_KEY + number)
            self.changes += 1
            self.log.append(f"[green]+[/green] subscriber {number} asks for {' '.join(tags)}")
        if number % 100 == 60 and number >= 60:
            self.index.remove(_NEW_KEY + number - 50)
            self.changes += 1
            self.log.append(f"[red]−[/red] subscriber {number - 50} leaves")

    def _show(self, tweet: list[str], keys: list[int]) -> None:
        words = " ".join(f"#{tag}" if tag[0] != "@" else tag for tag in tweet)
        some = ", ".join(map(str, keys[:3])) + (", …" if len(keys) > 3 else "")
        self.seen.append(f"{words}  [bold]→ {len(keys)}[/bold] [dim]user {some}[/dim]")


def _bars(rates: deque[float]) -> Text:
    levels = "▁▂▃▄▅▆▇█"
    top = max(rates, default=1.0)
    return Text("".join(levels[min(7, int(8 * rate / top))] for rate in rates), style="cyan")


def _view(stream: Stream, elapsed: float, seconds: float) -> Group:
    numbers = Table.grid(padding=(0, 3))
    rate = stream.events / max(stream.match_s, 1e-9)
    numbers.add_row("tweets", f"[bold]{stream.events:,}[/bold]", "matches", f"{stream.matches:,}")
    numbers.add_row("tweets/s", f"[bold]{short(rate)}[/bold]",
                    "matches/s", short(stream.matches / max(stream.match_s, 1e-9)))  # fmt: skip
    numbers.add_row(
        "interests changed", str(stream.changes), "tweets caught by new ones", str(stream.caught)
    )
    tweets = Text.from_markup("\n".join(stream.seen) or " ", overflow="ellipsis")
    tweets.no_wrap = True
    return Group(
        ProgressBar(total=seconds, completed=min(elapsed, seconds), width=60),
        Panel(numbers, title="stream", title_align="left"),
        Panel(_bars(stream.rates), title="tweets/s, step by step", title_align="left"),
        Panel(tweets, title="some tweets and who gets them", title_align="left"),
        Panel(Text.from_markup("\n".join(stream.log) or " "), title="changes while it runs", title_align="left"),
    )  # fmt: skip


def run(size: int, seconds: float, output: Path, threads: int, seed: int) -> None:
    """Build, stream, change, save, and sum up."""
    console = Console()
    console.print(f"[bold]Matchyard[/bold] {my.__version__}: tweets against {size:,} interests\n")
    console.print("preparing kernels (once per machine) …", style="dim")
    warm = Stream(1000, threads, seed)
    warm.build()
    warm.step(10)
    warm.step(60)
    stream = Stream(size, threads, seed)
    build_s = stream.build()
    info = stream.index.info()
    console.print(
        f"built in {build_s:.1f} s: {size / build_s / 1e3:,.0f} k interests/s from Arrow strings, "
        f"{info['distinct']:,} distinct, {info['names']:,} tags, "
        f"{info['index_bytes'] / size:.0f} bytes each\n"
    )
    _stream(stream, seconds, console)
    _sum_up(stream, output, console)


def _stream(stream: Stream, seconds: float, console: Console) -> None:
    start, number, said = time.perf_counter(), 1, 0.0
    live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
    if live:
        live.start()
    try:
        while (elapsed := time.perf_counter() - start) < seconds:
            stream.step(number)
            number += 1
            if live:
                live.update(_view(stream, elapsed, seconds))
            elif elapsed - said >= 5:
                said = elapsed
                rate = short(stream.events / stream.match_s)
                console.print(f"{elapsed:4.0f} s  {stream.events:,} tweets, {rate} tweets/s")
    except KeyboardInterrupt:
        pass
    finally:
        if live:
            live.update(_view(stream, seconds, seconds))
            live.stop()
    if not live:
        for line in stream.seen:
            console.print(f"  {line}", highlight=False)


def _sum_up(stream: Stream, output: Path, console: Console) -> None:
    index = stream.index
    path = output / "interests.index"
    start = time.perf_counter()
    index.save(path)
    save_s = time.perf_counter() - start
    start = time.perf_counter()
    opened = my.open(path)
    tweet = stream.source.events(1)[0].as_py()
    keys = opened.match([tweet])[0]
    open_ms = 1000 * (time.perf_counter() - start)
    missed = _explained(opened, tweet[: max(1, len(tweet) // 2)], keys)
    rows: list[tuple[str, Any]] = [
        ("tweets matched", f"{stream.events:,} at {short(stream.events / stream.match_s)} tweets/s"),
        ("pairs found", f"{stream.matches:,} at {short(stream.matches / stream.match_s)} pairs/s"),
        ("changes while running", f"{stream.changes}, which caught {stream.caught:,} tweets"),
        ("saved", f"{path} in {save_s:.2f} s"),
        ("opened and first answer", f"{open_ms:.0f} ms, memory-mapped"),
        ("why not?", missed),
        ("for scale", "Twitter's average was 6 000 tweets/s; the paper's two GPUs and 24 cores did "
                      "268 800/s at 21 M interests"),
    ]  # fmt: skip
    table = Table(title="summary", title_justify="left", show_header=False, title_style="bold")
    for name, value in rows:
        table.add_row(name, str(value))
    console.print(table)


def _explained(index: Any, tweet: list[str], keys: list[int]) -> str:
    """Why a user does not get half of a tweet that they got as a whole."""
    if not keys:
        return "nobody asked for that tweet"
    lines = index.explain(set(tweet), key=keys[0]).splitlines()
    return f"user {keys[0]} and half of a tweet they got: {lines[0]}"
