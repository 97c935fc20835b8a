"""Open, match and close many times: memory, mappings and descriptors must not grow."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Sequence
from pathlib import Path

import matchyard as my
from tests.torture import inputs
from tests.torture.arena import Clock, Tally, seeded

_WARM = 60  # opens before anything is measured: caches fill
_MOST_MIB = 48  # that memory may grow over a run, whatever its length


def run(
    folder: Path, seed: int, seconds: float, least: int = 0, engines: Sequence[str] = my.ENGINES
) -> Tally:
    """Open and match until time is up; then compare memory and descriptors with the start."""
    tally, random, clock = Tally("memory"), seeded(seed, "memory"), Clock(seconds, least + _WARM)
    indexes = [one for one in inputs.saved_indexes(folder, random) if one[1] in engines]
    before = None
    while clock.goes_on():
        path, _, _, events = random.choice(indexes)
        my.open(path, verify=random.choice([True, "auto", False])).match(events)
        tally.count("opened")
        if tally.tries == _WARM:
            before = _held()
    after = _held()
    assert before is not None
    if after[1] > before[1] + 4:
        tally.count("wrong", f"{before[1]} descriptors, then {after[1]}")
    if after[0] > before[0] + _MOST_MIB:
        tally.count("wrong", f"{before[0]} MiB, then {after[0]} after {tally.tries} opens")
    _open_many(indexes, tally)
    return tally


def _held() -> tuple[int, int]:
    """Resident memory in MiB, and the number of open descriptors."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20, len(os.listdir("/proc/self/fd"))


def _open_many(indexes: list[tuple[Path, str, str, list[object]]], tally: Tally) -> None:
    """Open 500 small indexes at once, under a limit of 1 024 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        held = [my.open(indexes[number % len(indexes)][0]) for number in range(500)]
        tally.count("opened" if len(held) == 500 else "lost")
    except my.MatchyardError as error:
        tally.count("crashed", f"500 indexes at once: {error}")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
