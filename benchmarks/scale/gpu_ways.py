"""Counted, read and kept results on a card, of these sources and of older ones, in one run.

    python -m benchmarks.scale.gpu_ways [WORKLOAD:SIZE …] [--against DIR …] [--threads 1,2,4,16]

From encoded events. *counted* needs the number of keys of each event, *read* has all keys of a batch in the
host's memory and drops them, *kept* has those of the whole pass at the end. A folder DIR has the sources of an
older revision (`git archive REVISION src | tar x -C DIR`, then DIR/src). Each source has a process of its own;
they build the same index, take turns, A B B A, and have to find the same keys. Prints G pairs per second, the medians
of all passes, and the rate beside the best of the others.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

WORKLOADS = ("peers:1M", "congress:500k", "active-web:5M", "skew:10M", "dense:1M")
WAYS = ("counted", "read", "kept")
MOST_KEYS = 1 << 26  # of a batch
PASS_KEYS, FEW = 400_000_000, 2048  # of a pass; events of the trial
PASS_EVENTS, BATCH_EVENTS = 1 << 19, 1 << 14


class Side:
    """An index of one source, on the card, and encoded events."""

    def __init__(self, folder: Path, device: str) -> None:
        import matchyard as my

        index = my.TagIndex(device=device)
        rows = feather.read_table(folder / "subscriptions")
        index.add_many(rows["tags"].combine_chunks(), rows["key"].combine_chunks())
        (self.segment,) = index.consolidate().segments()
        self.settings = self.segment.settings
        events = feather.read_table(folder / "events")["tags"].combine_chunks()
        self.lent: list[Any] = [self.segment.workspaces.borrow()]
        each = max(1.0, self.found(self.encoded(events[:FEW]), 0).event_start[-1] / FEW)
        n_events = min(len(events), max(FEW, int(PASS_KEYS / each)))
        self.step = min(BATCH_EVENTS, n_events, max(256, int(MOST_KEYS / each)))
        batch = self.encoded(events[:n_events])
        self.batches = [
            batch.rows(first, min(first + self.step, n_events))
            for first in range(0, n_events, self.step)
        ]

    def encoded(self, events: Any) -> Any:
        """A batch of events."""
        options = (
            getattr(self.settings, "input_options", None) or self.settings.reading
        )  # its older name
        return self.segment.encode(self.settings.engine.encoder.column(events, options))

    def found(self, batch: Any, thread: int) -> Any:
        """The part of a batch."""
        ((_, space),), (table,) = self.lent[thread], self.segment.tables
        return self.settings.algorithm.match(table, batch, space, self.settings.options)

    def run(self, way: str, threads: int) -> tuple[float, int]:
        """Seconds of a pass, and the number of keys."""
        while len(self.lent) < threads:
            self.lent.append(self.segment.workspaces.borrow())

        def share(thread: int) -> tuple[int, list[Any]]:
            total, kept = 0, []
            for batch in self.batches[thread::threads]:
                part = self.found(batch, thread)
                total += int(part.event_start[-1])
                if way != "counted":
                    keys = part.keys
                    assert len(keys) == part.event_start[-1]
                    if way == "kept":
                        kept.append(keys)
            return total, kept

        with ThreadPoolExecutor(threads) as pool:
            start = time.perf_counter()
            done = list(pool.map(share, range(threads)))
            seconds = time.perf_counter() - start
        return seconds, sum(total for total, _ in done)

    def checksum(self) -> int:
        """The same for equal keys in any order."""
        part = self.found(self.batches[0], 0)
        return int(part.keys.astype("int64").sum()) * 31 + int((part.event_start % 1013).sum())


def write(case: str, folder: Path) -> None:
    """Write the subscriptions and events of a workload of these sources: older ones may not have it."""
    import matchyard as my
    from matchyard.cli.arguments import read_count

    name, size = case.split(":")
    source = my.workload("tags", name, read_count(size))
    chunks = [pa.table({"tags": tags, "key": pa.array(keys)}) for tags, keys in source.chunks()]
    feather.write_feather(pa.concat_tables(chunks), folder / "subscriptions", "uncompressed")
    events = pa.table({"tags": source.events(PASS_EVENTS)})
    feather.write_feather(events, folder / "events", "uncompressed")


def serve(folder: Path, device: str) -> None:
    """Answer the commands of the other process."""
    side = Side(folder, device)
    print(json.dumps([len(side.batches), side.step, side.checksum()]), flush=True)
    for line in sys.stdin:
        way, threads = line.split()
        print(json.dumps(side.run(way, int(threads))), flush=True)
    if "RATES" in os.environ:
        from matchyard.gpu.key_writer_gpu import rates

        print(rates.bus, rates.host, file=sys.stderr)


class Process:
    """A side in a process of its own."""

    def __init__(self, name: str, source: Path, folder: Path, device: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder), "--device", device],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def answer(self) -> Any:
        """The next line."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit(f"{self.name} failed: see above")
        return json.loads(line)

    def ask(self, way: str, threads: int) -> Any:
        """Run a pass."""
        print(way, threads, file=self._process.stdin, flush=True)
        return self.answer()

    def end(self) -> None:
        """End the process."""
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


def compare(case: str, sources: dict[str, Path], given: argparse.Namespace) -> None:
    """Print a line for each way and number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        write(case, Path(folder))
        sides = [Process(name, path, Path(folder), given.device) for name, path in sources.items()]
        first = [side.answer() for side in sides]
    assert all(one[2] == first[0][2] for one in first), f"the sources do not agree: {first}"
    for threads in map(int, given.threads.split(",")):
        for way in WAYS:
            rates: dict[str, list[float]] = {side.name: [] for side in sides}
            for number in range(-1, given.rounds):  # the first one warms up
                for side in sides if number % 2 else sides[::-1]:
                    seconds, n_keys = side.ask(way, threads)
                    if number >= 0:
                        rates[side.name].append(n_keys / seconds / 1e9)
            medians = {name: statistics.median(some) for name, some in rates.items()}
            mine, *others = medians.values()
            ratio = f"{mine / max(others):7.2f}" if others else ""
            told = "  ".join(f"{name} {rate:6.2f}" for name, rate in medians.items())
            print(f"{case:16} {threads:3} threads {way:8} {told} {ratio}", flush=True)
    for side in sides:
        side.end()


def main() -> None:
    """Compare all workloads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--against", nargs="*", type=Path, default=[])
    parser.add_argument("--threads", default="1,2,4,16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(Path(given.serve), given.device)
        return
    here = Path(__file__).parents[2] / "src"
    sources = {"here": here, **{path.parent.name: path for path in given.against}}
    for case in given.workloads:
        compare(case, sources, given)


if __name__ == "__main__":
    main()
