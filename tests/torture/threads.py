"""Read during live changes, saves and opens: every answer must fit a state that the index had."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import matchyard as my
from tests.torture import inputs
from tests.torture.arena import Tally, describe, seeded

_READERS = 3


def run(folder: Path, seed: int, seconds: float) -> Tally:
    """Run one engine after the other, each for a third of the time."""
    tally = Tally("threads")
    for engine in my.ENGINES:
        _Beside(folder, engine, seeded(seed, engine, "threads"), tally).run(seconds / 3)
    return tally


class _Beside:
    """A live index. A writer adds and removes keys that match every event. A reader must see a key
    if its addition ended before the match began and its removal began after the match ended. A
    reader must not see a key before its addition or after its removal."""

    def __init__(self, folder: Path, engine: str, random: Random, tally: Tally) -> None:
        self.path, self.engine, self.tally = folder / f"{engine}-threads.index", engine, tally
        self.index: Any = my.create(engine, live=True)
        all_of = {"tags": "a", "predicates": "a exists", "twigs": "//a"}
        self.everything = all_of[engine]
        self.event = {"tags": {"a"}, "predicates": {"a": 1}, "twigs": "<a/>"}[engine]
        for number in range(30):
            self.index.add(inputs.subscription(engine, random), -1 - number)
        self.index.add(self.everything, -100).save(self.path)
        self.lock, self.begun, self.known = threading.Lock(), set[int](), set[int]()
        self.is_over = False
        self.n_turns = 0  # of the writer, from adding to removing and back

    def run(self, seconds: float) -> None:
        """Run writers and readers until time is up."""
        work = [self._write, self._save, self._open, *[self._read] * _READERS]
        threads = [threading.Thread(target=self._guard, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.is_over = True
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                self.tally.count("hung", f"{self.engine} {thread.name}")

    def _guard(self, work: Any) -> None:
        try:
            while not self.is_over:
                work()
        except BaseException as error:
            self.tally.count("crashed", f"{self.engine} {work.__name__} {describe(error)}")

    def _write(self) -> None:
        self.n_turns += 1
        for key in range(1, 200):
            with self.lock:
                self.begun.add(key)
            self.index.add(self.everything, key)
            with self.lock:
                self.known.add(key)
            if key % 50 == 0:
                self.index.consolidate()
            if self.is_over:
                return
        self.n_turns += 1
        for key in sorted(self.known):
            with self.lock:
                self.known.discard(key)
            self.index.remove(key)
            self.index.match([self.event])
            with self.lock:
                self.begun.discard(key)
            if self.is_over:
                return

    def _read(self) -> None:
        with self.lock:
            turn, least, begun = self.n_turns, set(self.known), set(self.begun)
        found = {key for key in self.index.match([self.event])[0] if key > 0}
        with self.lock:
            most, still = set(self.begun), set(self.known)
            if turn != self.n_turns:  # a key may have gone and come back: nothing is certain
                return
            missing, more = (least & still) - found, found - most - begun
            self.tally.count(
                "wrong" if missing or more else "right",
                f"{self.engine} misses {missing}, has {more} that were removed or never added",
            )

    def _save(self) -> None:
        self.index.save(self.path)
        time.sleep(0.01)

    def _open(self) -> None:
        opened = my.open(self.path, verify=True)
        is_right = -100 in opened.match([self.event])[0]
        with self.lock:
            self.tally.count("right" if is_right else "lost", f"{self.engine} opened")
        time.sleep(0.005)
