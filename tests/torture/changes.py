"""Add, remove, consolidate, match, save and open in any order, and compare with a plain list."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import empty
from tests.torture import inputs
from tests.torture.arena import Clock, Tally, outcome_of, seeded, split
from tests.torture.inputs import OPTIONS

APPROXIMATE = ("ada_rein",)
_ROWS = 40  # beyond so many a machine starts anew: the plain list compares all of them
_STEPS = 300


def run(folder: Path, seed: int, engine: str, seconds: float, least: int = 0) -> Tally:
    """Run machines of all algorithms of an engine, one after the other, until time is up."""
    tally, random, clock = Tally(f"changes, {engine}"), seeded(seed, engine), Clock(seconds)
    algorithms = [one for one in find_engine(engine).algorithms if one not in APPROXIMATE]
    default = find_engine(engine).default
    while tally.tries < least or clock.goes_on():
        algorithm = default if random.random() < 0.5 else random.choice(algorithms)
        own = random.getrandbits(32)
        machine = Machine(folder / engine, engine, algorithm, Random(own))
        for _ in range(_STEPS):
            kind, more = split(outcome_of(machine.step))
            tally.count(kind, f"{engine} {algorithm} seed {own} step {machine.n_steps} {more}")
            if kind != "right" or len(machine.rows) > _ROWS:
                break
    return tally


class Machine:
    """An index, and the list of its subscriptions."""

    def __init__(self, folder: Path, engine: str, algorithm: str, random: Random) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.path, self.engine, self.algorithm = folder / "an.index", engine, algorithm
        folder.mkdir(parents=True)
        self.random, self.n_steps = random, 0
        self.language, self.oracle = find_engine(engine).language, find_engine(engine).oracle
        self.live, self.strings = random.random() < 0.5, random.random() < 0.5
        options = random.choice([{}, *OPTIONS.get(algorithm, [{}])])
        self.index: Any = empty(
            engine, algorithm, options, live=self.live, shard_size=random.choice([3, 1000])
        )
        self.rows: list[tuple[Any, Any]] = []  # all changes made
        self.visible: list[tuple[Any, Any]] = []  # those that matching sees

    def step(self) -> str:
        """Make one random change or match."""
        self.n_steps += 1
        number = self.random.random()
        if number < 0.45:
            self._add()
        elif number < 0.7:
            self._remove()
        elif number < 0.74:
            self.index.consolidate()
            self.visible = list(self.rows)
        elif number < 0.755:
            self._save_and_open()
        else:
            return self._match()
        if self.live:
            self.visible = list(self.rows)
        if self.random.random() < 0.2 and len(self.index) != len(self.visible):
            return "wrong: number of subscriptions"
        return "right"

    def _add(self) -> None:
        row = inputs.subscription(self.engine, self.random, self.algorithm)
        key = inputs.key(self.random, self.strings)
        self.index.add(row, key)
        self.rows.append((self.language.parse(row), key))

    def _remove(self) -> None:
        key = inputs.key(self.random, self.strings)
        if self.rows and self.random.random() < 0.6:
            row, key = self.random.choice(self.rows)
            self.index.remove(key, row)
            self.rows = [one for one in self.rows if one != (row, key)]
        else:
            self.index.remove(key)
            self.rows = [one for one in self.rows if one[1] != key]

    def _save_and_open(self) -> None:
        self.index.save(self.path)
        verify = self.random.choice([True, "auto", False])
        self.index = my.open(self.path, verify=verify, live=self.live)
        self.visible = list(self.rows)

    def _match(self) -> str:
        events = [
            inputs.event(self.engine, self.random, self.algorithm)
            for _ in range(self.random.randint(0, 3))
        ]
        seen = [self.language.parse_event(event) for event in events]
        want = [
            Counter(key for row, key in self.visible if self.oracle.is_match(row, event))
            for event in seen
        ]
        if self.random.random() < 0.3:
            want = [Counter(set(keys)) for keys in want]
            found = [Counter(keys) for keys in self.index.match_unique(events)]
        else:
            found = [Counter(keys) for keys in self.index.match(events)]
        return "right" if found == want else f"wrong: {events!r}"
