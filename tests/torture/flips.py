"""Change one byte of a saved index, and open it with the default settings."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import matchyard as my
from tests.torture import inputs
from tests.torture.arena import Tally, in_children, seeded, split

# Roughly the bytes of the indexes by whose size outcomes are told apart.
SIZES = (("small", 0), ("8 MiB", 200_000), ("60 MiB", 1_500_000), ("beyond 128 MiB", 5_000_000))


def run(folder: Path, seed: int, n_flips: int, with_large: bool) -> list[Tally]:
    """Flip bytes in small indexes of every algorithm, and in larger ones; a tally for each size."""
    random = seeded(seed, "flips")
    small = inputs.saved_indexes(folder, random)
    tallies = [_flip(small, random, n_flips if not with_large else n_flips * 6 // 10, "small")]
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
        tallies.append(_flip(some, random, share, label))
    return tallies


def _stored(index: Any, random: Random) -> list[Any]:
    """Events that match subscriptions in all parts of a large index."""
    made = my.workload("tags", "twitter-popular", 100_000)
    rows, _ = made.subscriptions(0, 20_000)
    return [row.as_py() for row in random.sample(list(rows), 2000)]


def _flip(indexes: list[Any], random: Random, n_flips: int, label: str) -> Tally:
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
        jobs.append((path, events, file, at, 1 << random.randrange(8)))
    expected = {str(path): inputs.answers(my.open(path), events) for path, _, _, events in indexes}

    def attempt(job: Any) -> str:
        path, events, file, at, bit = job
        with file.open("r+b") as data:
            before = os.pread(data.fileno(), 1, at)
            os.pwrite(data.fileno(), bytes([before[0] ^ bit]), at)
            try:
                found = inputs.answers(my.open(path), events)
            finally:
                os.pwrite(data.fileno(), before, at)
        return "same" if found == expected[str(path)] else "wrong"

    for (path, _, file, at, bit), outcome in in_children(jobs, attempt):
        kind, more = split(outcome)
        if kind in ("crashed", "hung") and "status" in more:
            _mend(file, at, bit)  # a child that died has not put the byte back
        tally.count(kind, f"{file.relative_to(path)} byte {at} bit {bit} {more}")
    return tally


def _mend(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as data:
        now = os.pread(data.fileno(), 1, at)
        os.pwrite(data.fileno(), bytes([now[0] ^ bit]), at)
