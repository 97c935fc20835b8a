"""Change one byte of a saved index, open it with the default settings, and read it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa

import matchyard as my
from matchyard import shards
from matchyard.storage import blocks, content, files
from tests.torture import inputs
from tests.torture.arena import Tally, in_children, seeded, split

Read = Callable[[Path, list[Any]], Any]

# Roughly the bytes of the indexes by whose size outcomes are told apart.
SIZES = (("small", 0), ("8 MiB", 200_000), ("60 MiB", 1_500_000), ("beyond 128 MiB", 5_000_000))


def run(folder: Path, seed: int, n_flips: int, with_large: bool) -> list[Tally]:
    """Flip bytes in small indexes of every algorithm, read in every way block by block, and in larger ones; a
    tally for each size."""
    random = seeded(seed, "flips")
    lazy = folder / "lazy"
    lazy.mkdir()
    with small_blocks():
        indexes = inputs.saved_indexes(lazy, random)
        tallies = [flip(indexes, random, n_flips, "blocks", READS)]
    small = inputs.saved_indexes(folder, random)
    tallies += [flip(small, random, n_flips if not with_large else n_flips * 6 // 10, "small")]
    for name, n_rows in SIZES[1:] if with_large else ():
        path = folder / f"{n_rows}.index"
        index = my.TagIndex().add_many(
            *my.workload("tags", "twitter-popular", n_rows).subscriptions(0, n_rows)
        )
        index.save(path)
        some = [(path, "tags", "rarest", [inputs.tag_event(random), *_stored(index, random)])]
        n_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        label = f"{name} ({n_bytes / 2**20:.0f} MiB)"
        share = n_flips * (2 if n_bytes < 1 << 25 else 1) // 10
        tallies.append(flip(some, random, share, label))
    return tallies


def _stored(index: Any, random: Random) -> list[Any]:
    """Events that match subscriptions in all parts of a large index."""
    made = my.workload("tags", "twitter-popular", 100_000)
    rows, _ = made.subscriptions(0, 20_000)
    return [row.as_py() for row in random.sample(list(rows), 2000)]


@contextmanager
def small_blocks() -> Iterator[None]:
    """Save and open indexes as if they were large: all files are mapped, and checked in blocks of 64 bytes."""
    with (
        mock.patch.object(blocks, "BLOCK_BYTES", 64),
        mock.patch.object(content, "READ_BYTES", 0),
        mock.patch.object(files, "AUTO_BYTES", 0),
    ):
        yield


# -------------------------------------------------------------------- ways to read


def _match(path: Path, events: list[Any]) -> Any:
    return inputs.answers(my.open(path), events)


def _by_threads(path: Path, events: list[Any]) -> Any:
    return inputs.answers(my.open(path, threads=2), events * 20)


def _one_by_one(path: Path, events: list[Any]) -> Any:
    index = my.open(path)
    return [sorted(map(repr, index.match_one(event))) for event in events]


def _unique(path: Path, events: list[Any]) -> Any:
    matches = my.open(path).match_unique(events)
    return matches.counts().tolist(), [sorted(map(repr, keys)) for keys in matches]


def _keys(path: Path) -> list[Any]:
    numbers = list(range(-2, 8))
    return [f"k{n}" for n in range(10)] if path.name.endswith("-0.index") else numbers


def _subscriptions(path: Path, events: list[Any]) -> Any:
    index = my.open(path)
    texts = [sorted(index.subscriptions(key, text=True)) for key in _keys(path)]
    return texts, len(index), index.info()["subscriptions"], len(list(index.items()))


def _reasons(path: Path, events: list[Any]) -> Any:
    index = my.open(path)
    return [index.explain(events[0], key) for key in _keys(path)]


def _saved(path: Path, events: list[Any]) -> Any:
    with _scratch(path) as other:
        my.open(path).save(other)
        return _match(other, events)


def _changed(path: Path, events: list[Any]) -> Any:
    index, (first, second, *_) = my.open(path, live=True), _keys(path)
    rows = index.subscriptions(second)
    index.remove(first)
    if rows:
        index.add(rows[0], first).remove(second, rows[0])
    before = inputs.answers(index, events)
    return before, inputs.answers(index.consolidate(), events)


def _appended(path: Path, events: list[Any]) -> Any:
    removed = {"subscription": pa.array([None], pa.string()), "key": _keys(path)[:1]}
    with _scratch(path) as other:
        shutil.copytree(path, other, copy_function=os.link)
        with shards.new_version(other) as folder:
            base = shards.carry(other, folder, pa.table(removed))
            kept = shards.write_key_names(folder, base.key_names)
            shards.publish(other, folder, [*base.files, *kept], base.plan, base.segments)
        return _match(other, events)


def _of_one_shard(path: Path, events: list[Any]) -> Any:
    return inputs.answers(shards.open_shards(path, "0001", [0]), events)


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    place = path.with_name(f"scratch-{os.getpid()}")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


READS: dict[str, Read] = {
    "match": _match,
    "threads": _by_threads,
    "one by one": _one_by_one,
    "unique": _unique,
    "subscriptions": _subscriptions,
    "reasons": _reasons,
    "saved": _saved,
    "changed": _changed,
    "appended": _appended,
    "one shard": _of_one_shard,
}


# -------------------------------------------------------------------- the attack


def flip(
    indexes: list[Any],
    random: Random,
    n_flips: int,
    label: str,
    reads: Mapping[str, Read] = {"match": _match},
) -> Tally:
    tally = Tally(f"flips, default verify, {label}")
    jobs = []
    for _ in range(n_flips):
        path, _, _, events = random.choice(indexes)
        file = random.choice(
            [one for one in path.rglob("*") if one.is_file() and one.name != ".lock"]
        )
        if file.stat().st_size > 1 << 20 or random.random() < 0.5:  # by size, and file by file
            files = [one for one in path.rglob("*") if one.is_file() and one.name != ".lock"]
            file = random.choices(files, [one.stat().st_size for one in files])[0]
        at = random.randrange(max(1, file.stat().st_size))
        jobs.append((path, events, file, at, 1 << random.randrange(8), random.choice([*reads])))
    expected = {
        (path, name): read(path, events)
        for path, _, _, events in indexes
        for name, read in reads.items()
    }

    def attempt(job: Any) -> str:
        path, events, file, at, bit, name = job
        with file.open("r+b") as data:
            before = os.pread(data.fileno(), 1, at)
            os.pwrite(data.fileno(), bytes([before[0] ^ bit]), at)
            try:
                found = reads[name](path, events)
            finally:
                os.pwrite(data.fileno(), before, at)
        return "same" if found == expected[path, name] else "wrong"

    for (path, _, file, at, bit, name), outcome in in_children(jobs, attempt):
        kind, more = split(outcome)
        if kind in ("crashed", "hung") and "status" in more:
            _mend(file, at, bit)  # a child that died has not put the byte back
        tally.count(kind, f"{name}: {file.relative_to(path)} byte {at} bit {bit} {more}")
    return tally


def _mend(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as data:
        now = os.pread(data.fileno(), 1, at)
        os.pwrite(data.fileno(), bytes([now[0] ^ bit]), at)
