"""One side of `bench --against`: builds an index, then times passes on request.

It runs as a script by its path, so that it can import an older revision of the package. It uses public names
only. It reads commands from standard input, a line each, and answers with a line of JSON:

    build                  seconds of the build
    events SECONDS         the number of events that take about that long
    pass NUMBER COUNT WAY  seconds of matching that many events, and a checksum of the matches

Seconds are CPU seconds, or wall seconds on a card. A way of `WAYS` says what becomes of the matches.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

FEW = 512  # events of a first trial
SLOT = 1 << 22  # distance between the first events of two passes
BATCH = 1 << 14  # events whose keys are read before those of the next


def cpu_s() -> float:
    """CPU seconds of this process and its descendants, such as workers and the JVM."""
    return time.process_time() + sum(_ticks_below(os.getpid())) / os.sysconf("SC_CLK_TCK")


def _ticks_below(parent: int) -> list[int]:
    ticks = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in task.read_text().split():
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has ended
            ticks.append(sum(map(int, fields[11:15])))  # its own time and that of ended children
            ticks += _ticks_below(int(child))
    return ticks


class InProcess:
    """An index in this process."""

    def __init__(self, job: dict[str, Any]) -> None:
        import matchyard as my

        self._job = job
        self._source = my.workload(
            job["engine"], job["workload"], job["size"], job["seed"], job["parameters"]
        )
        self._rows = list(self._source.chunks())
        self._index = self._made()
        tiny = self._made().add_many(*self._source.subscriptions(0, 200)).consolidate()
        for act in WAYS.values():
            act(tiny, self._source.events(FEW), job["threads"])  # compiles

    def _made(self) -> Any:
        import matchyard as my

        job = self._job
        return my.create(job["engine"], job["algorithm"], job["options"], job["device"])

    def build(self) -> None:
        """Make the index."""
        for subscriptions, keys in self._rows:
            self._index.add_many(subscriptions, keys)
        self._index.consolidate()
        self._rows = []

    def events(self, start: int, count: int) -> Any:
        """Events of these numbers."""
        return self._source.events(count, start=start)

    def match(self, events: Any, way: str = "match") -> tuple[int, int]:
        """How many matches there are, and a checksum."""
        return WAYS[way](self._index, events, self._job["threads"])


def matched(index: Any, events: Any, threads: int) -> tuple[int, int]:
    """Match, and make an Arrow column."""
    matches = index.match(events, threads)
    matches.to_arrays()
    return matches.work.matches, int(matches.keys.sum())


def counted(index: Any, events: Any, threads: int) -> tuple[int, int]:
    """Match, and look at no key."""
    return index.match(events, threads).work.matches, 0


def read(index: Any, events: Any, threads: int) -> tuple[int, int]:
    """Have the keys of one batch at a time."""
    starts = range(0, len(events), BATCH)
    return sum(len(index.match(events[at : at + BATCH], threads).keys) for at in starts), 0


def kept(index: Any, events: Any, threads: int) -> tuple[int, int]:
    """Have all keys in the end."""
    return len(index.match(events, threads).keys), 0


WAYS: dict[str, Callable[[Any, Any, int], tuple[int, int]]] = {
    "match": matched, "counted": counted, "read": read, "kept": kept,
}  # fmt: skip


class InSpark:
    """An index in Spark, over files of events."""

    def __init__(self, job: dict[str, Any]) -> None:
        import tempfile

        import matchyard as my
        from matchyard.spark import session

        self._folder = Path(tempfile.mkdtemp(prefix="matchyard-side-"))
        self._spark = session(job["threads"])
        self._source = my.workload("tags", job["workload"], job["size"], job["seed"])
        self._write("subscriptions", *self._source.subscriptions(0, job["size"]))

    def _write(self, name: str, tags: Any, keys: Any) -> str:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = str(self._folder / f"{name}.parquet")
        pq.write_table(pa.table({"tags": tags, "key": pa.array(keys)}), path)
        return path

    def build(self) -> None:
        """Make the index."""
        from matchyard.spark import build

        rows = self._spark.read.parquet(str(self._folder / "subscriptions.parquet"))
        build(rows, str(self._folder / "index"), subscription="tags", key="key")

    def events(self, start: int, count: int) -> Any:
        """Events of these numbers."""
        path = self._write(f"events-{start}", self._source.events(count, start=start), range(count))
        return self._spark.read.parquet(path).withColumnRenamed("key", "id")

    def match(self, events: Any, way: str = "match") -> tuple[int, int]:
        """How many matches there are, and a checksum."""
        from matchyard.spark import match

        pairs = match(events, str(self._folder / "index"), event="tags", id="id")
        row = pairs.selectExpr("count(*)", "sum(hash(*))").first()
        return int(row[0]), int(row[1] or 0)


def timed(clock: Callable[[], float], act: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = clock()
    result = act()
    return clock() - start, result


def affordable(clock: Callable[[], float], side: Any, seconds: float) -> int:
    """The number of events that take about `seconds`; no pass uses these events."""
    count = FEW
    while True:
        events = side.events(1 << 40, count)
        taken, _ = timed(clock, partial(side.match, events))
        if taken > seconds / 4 or count >= SLOT:
            return max(FEW, min(SLOT, int(count * seconds / max(taken, 1e-9))))
        count *= 4


def main() -> None:
    """Answer commands until the end of the input."""
    job = json.loads(sys.argv[1])
    side = InSpark(job) if job["engine"] == "spark" else InProcess(job)
    clock = (
        cpu_s if job["device"] == "cpu" else time.perf_counter
    )  # a thread may spin while a card works
    for line in sys.stdin:
        name, *given = line.split()
        if name == "build":
            answer: Any = timed(clock, side.build)[0]
        elif name == "events":
            answer = affordable(clock, side, float(given[0]))
        else:
            number, count, way = int(given[0]), int(given[1]), given[2]
            events = side.events(number * SLOT, count)
            seconds, result = timed(clock, partial(side.match, events, way))
            answer = [seconds, *result]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
