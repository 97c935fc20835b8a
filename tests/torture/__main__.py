"""Run the attacks: `python -m tests.torture [--minutes 10] [--seed 1] [--only kills,flips] [--long]`."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matchyard as my
from matchyard.bench.compare.machine import describe
from tests.torture import (
    changes,
    crafted,
    disks,
    flips,
    fuzz,
    journal,
    kills,
    memory,
    rules,
    saves,
    signals,
    threads,
)
from tests.torture.arena import Tally, say

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "torture.jsonl"
Attack = Callable[[Path, int, float, bool], list[Tally]]

# What share of the time each gets, and how many tries a long run makes of it at least.
ATTACKS: dict[str, tuple[float, Attack]] = {
    "kills": (0.1, lambda place, seed, s, long: [kills.run(place, seed, s, 5000 * long)]),
    "flips": (0.1, lambda place, seed, s, long: flips.run(place, seed, 12_000 if long else int(20 * s), True)),
    "crafted": (0.15, lambda place, seed, s, long: [crafted.run(place, seed, 1, 4000 if long else int(8 * s))]),
    "disks": (0.05, lambda place, seed, s, long: [disks.run(place, seed, s, 500 * long)]),
    "journal": (0.05, journal.run),
    "fuzz": (0.15, lambda place, seed, s, long: fuzz.run(seed, s, 1_050_000 * long)),
    "changes": (
        0.15,
        lambda place, seed, s, long: [
            changes.run(place, seed, engine, s / 3, 300_000 * long) for engine in my.ENGINES
        ],
    ),
    "threads": (0.05, lambda place, seed, s, long: [threads.run(place, seed, s)]),
    "saves": (0.1, lambda place, seed, s, long: [saves.run(place, seed, s, 2000 * long)]),
    "signals": (0.05, lambda place, seed, s, long: signals.run(seed, s, 2000 * long)),
    "rules": (0.05, lambda place, seed, s, long: [rules.run(place, seed, s, 2000 * long)]),
    "memory": (0.05, lambda place, seed, s, long: [memory.run(place, seed, s, 2000 * long)]),
}  # fmt: skip


def main() -> int:
    """Run the chosen attacks, print a table, and append the results to a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="time for all attacks together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default=",".join(ATTACKS), help="some attacks, with commas between"
    )
    parser.add_argument("--long", action="store_true", help="as many tries as a release needs")
    chosen = parser.parse_args()
    names = chosen.only.split(",")
    shares = sum(ATTACKS[name][0] for name in names)
    tallies: list[Tally] = []
    for name in names:
        share, attack = ATTACKS[name]
        tallies += run_one(
            name, attack, chosen.seed, 60 * chosen.minutes * share / shares, chosen.long
        )
    print(table(tallies))
    append(tallies, chosen.seed)
    for tally in tallies:
        for failure in tally.failures[:20]:
            print(f"{tally.attack}: {failure}")
    return 0 if all(tally.is_clean for tally in tallies) else 1


def run_one(name: str, attack: Attack, seed: int, seconds: float, is_long: bool) -> list[Tally]:
    """Run one attack in a new folder."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"torture-{name}-") as folder:
        found = attack(Path(folder), seed, seconds, is_long)
    for tally in found:
        tally.seconds = (time.monotonic() - start) / len(found)
        say(f"{tally.attack}: {tally.tries} tries, {dict(tally.outcomes)}, {tally.seconds:.0f} s")
    return found


def table(tallies: list[Tally]) -> str:
    """The table of results, with a line for each attack."""
    width = max(len(tally.attack) for tally in tallies)
    lines = [
        f"{'attack':<{width}} {'tries':>9} {'lost':>6} {'wrong':>6} {'crashed':>8} {'hung':>5}  outcomes"
    ]
    for one in tallies:
        outcomes = ", ".join(f"{name} {n}" for name, n in one.outcomes.most_common())
        lines.append(
            f"{one.attack:<{width}} {one.tries:>9} {one.lost:>6} {one.wrong:>6} {one.crashed:>8} "
            f"{one.hung:>5}  {outcomes}"
        )
    return "\n".join(lines)


def append(tallies: list[Tally], seed: int) -> None:
    """Append the results to RESULTS, a line for each attack."""
    with RESULTS.open("a") as file:
        for tally in tallies:
            line = {
                **describe(),
                "seed": seed,
                **{name: value for name, value in vars(tally).items() if name != "failures"},
                "failures": tally.failures[:20],
            }
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
