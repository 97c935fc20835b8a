"""Save and reopen a live index while four threads change it: every saved version is the state of one moment.

Each thread changes keys of its own. It numbers its changes, and notes each before the call and after it. So what a
key may have is known at any time: what one of the changes left, from the last that has ended to the last that has
begun. Each rule has the number of its change as a text, so that what is read shows when it was made.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import little_room
from tests.torture.arena import Clock, Tally, describe, seeded

_SAVES = 25  # of one index; then the next begins
_ALWAYS = 6  # keys of each thread that have exactly one rule at every moment
_PASSING = 25  # keys of each thread that come and go: about so many at a time
_STAYING = 40  # keys that never change
_PAUSE_S = 0.003  # of a thread: saves would hardly get on without it
_AHEAD = 100  # changes that may begin while events are matched
_RULES = {
    "tags": "{key} n{number}",
    "predicates": 'key = "{key}" and n = "n{number}"',
    "twigs": "/e/{key}/n{number}",
}


def run(folder: Path, seed: int, seconds: float, least: int = 0) -> Tally:
    """Save indexes of all engines in turn until time is up; half of them have little room."""
    tally, random, clock = Tally("saves"), seeded(seed, "saves"), Clock(seconds)
    number = 0
    while tally.outcomes["saved"] < least or clock.goes_on():
        engine, own = my.ENGINES[number % len(my.ENGINES)], random.getrandbits(32)
        is_cramped, interval = random.random() < 0.5, random.choice([1e-6, 1e-5, 1e-4, 5e-3])
        number += 1
        what = f"{engine} seed {own} cramped {is_cramped} interval {interval}"
        with switching_every(interval), little_room() if is_cramped else nullcontext():
            Changed(engine, own).save_often(folder / f"{number}.index", tally, what)
    return tally


@contextmanager
def switching_every(seconds: float) -> Iterator[None]:
    """Threads take turns this often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Changed:
    """A live index, and the threads that change it."""

    def __init__(self, engine: str, seed: int, threads: str = "abcd") -> None:
        self.index: Any = my.create(engine, live=True)
        self.still = Changer(self.index, engine, "s", Random(seed))
        for number in range(_STAYING):
            self.still.add(f"s{number}")
        self.changers = [
            Changer(self.index, engine, name, Random(f"{seed} {name}")) for name in threads
        ]
        for changer in self.changers:
            for key in changer.always:
                changer.add(key)
        self.is_over = False

    def save_often(self, path: Path, tally: Tally, what: str, n_saves: int = _SAVES) -> None:
        """Save, open and check, beside threads that change the index and one that reads it."""
        lock = threading.Lock()

        def note(wrong: list[str], right: str) -> None:
            with lock:
                tally.count("wrong" if wrong else right, f"{what}: {right}: {wrong[:5]}")

        def repeat(work: Any) -> None:
            try:
                while not self.is_over:
                    work()
            except BaseException as error:
                with lock:
                    tally.count("crashed", f"{what} {work.__name__} {describe(error)}")

        work = [lambda: note(self.wrong_now(), "matched"), *(one.change for one in self.changers)]
        threads = [threading.Thread(target=repeat, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        try:
            for _ in range(n_saves):
                note(self.save_and_open(path), "saved")
        finally:
            self.is_over = True
            for thread in threads:
                thread.join(60)
                if thread.is_alive():
                    tally.count("hung", f"{what} {thread.name}")

    def save_and_open(
        self, path: Path, beside: AbstractContextManager[Any] | None = None
    ) -> list[str]:
        """Save, with something beside it, and open; what is wrong with the saved version."""
        before = self._n_ended()
        with beside or nullcontext():
            self.index.save(path)
        opened, spans = my.open(path), self._spans(before)
        return self._wrong_items(_rules(opened), spans) + self._wrong_answers(opened, spans)

    def wrong_now(self) -> list[str]:
        """What is wrong with the index at this moment."""
        sleep(_PAUSE_S)
        before = self._n_ended()
        found = _rules(self.index)
        return self._wrong_items(found, self._spans(before)) + self._wrong_answers(self.index)

    def _n_ended(self) -> list[int]:
        return [changer.n_ended for changer in self.changers]

    def _spans(self, before: list[int]) -> list[tuple[Changer, range]]:
        """The changers, with the changes that may be the last one of the state that was read."""
        return [
            (self.still, range(self.still.n_ended, self.still.n_ended + 1)),
            *(
                (changer, range(n_ended, changer.n_begun + 1))
                for changer, n_ended in zip(self.changers, before, strict=True)
            ),
        ]

    def _wrong_items(
        self, found: dict[str, list[Any]], spans: list[tuple[Changer, range]]
    ) -> list[str]:
        """What is wrong with the rules by key."""
        wrong = [one for changer, span in spans for one in changer.wrong(found, span)]
        return wrong + [f"{key} has {found[key]}, and nobody added it" for key in found]

    def _wrong_answers(
        self, index: Any, spans: list[tuple[Changer, range]] | None = None
    ) -> list[str]:
        """What is wrong with the keys that match; without spans, the threads go on meanwhile."""
        before, events, asked = self._n_ended(), [], []
        for changer in (self.still, *self.changers):
            for key in changer.some_keys():
                events.append(changer.event_of(key))
                asked.append((changer, key))
        answers = index.match(events).to_lists()
        allowed = dict(self._spans(before) if spans is None else spans)
        return [
            f"{key} matches as {answer}, in {allowed[changer]}"
            for (changer, key), answer in zip(asked, answers, strict=True)
            if answer not in changer.answers(key, allowed[changer])
        ]


def _rules(index: Any) -> dict[str, list[Any]]:
    """The rules of each key of an index."""
    found: dict[str, list[Any]] = {}
    for key, rule in index.items():
        found.setdefault(key, []).append(rule)
    return found


class Changer:
    """The changes of one thread."""

    def __init__(self, index: Any, engine: str, name: str, random: Random) -> None:
        self.index, self.engine, self.name, self.random = index, engine, name, random
        self.always = [f"{name}{number}" for number in range(_ALWAYS)]
        self.passing: list[str] = []  # keys that have a rule now
        self.lock = threading.Lock()  # of what follows
        self.n_begun = self.n_ended = 0
        # Of each key, the numbers of the changes with the rules that they leave, or none.
        self.history: dict[str, list[tuple[int, Any]]] = {}

    # ---------------------------------------------------------------- changing

    def change(self) -> None:
        """Make one random change."""
        sleep(self.random.random() * _PAUSE_S)
        kind = self.random.random()
        if kind < 0.4:
            self.replace(self.random.choice(self.always))
        elif kind < 0.6 or not self.passing:
            self.passing.append(f"{self.name}{self.n_begun + 1000}")
            self.add(self.passing[-1])
        elif kind < 0.6 + 0.2 * len(self.passing) / _PASSING:
            self.remove(self.passing.pop(self.random.randrange(len(self.passing))))
        elif kind < 0.9:
            self.replace(self.random.choice(self.passing))
        else:
            self.index.match_one(self.event_of(self.always[0]))  # shows the changes

    def add(self, key: str) -> None:
        """Add a rule of a key that has none."""
        with self._noted(key, self._text(key)) as text:
            self.index.add(text, key)

    def replace(self, key: str) -> None:
        """Replace the rule of a key."""
        with self._noted(key, self._text(key)) as text:
            self.index.replace(key, text)

    def remove(self, key: str) -> None:
        """Remove a key, or its one rule."""
        rule = self.history[key][-1][1] if self.random.random() < 0.5 else None
        with self._noted(key, None):
            self.index.remove(key, rule)

    def _text(self, key: str) -> str:
        number = f"{self.name}{self.n_begun + 1}"
        return _RULES[self.engine].format(key=key, number=number)

    @contextmanager
    def _noted(self, key: str, text: str | None) -> Iterator[str | None]:
        """Note the next change before and after it is made."""
        rule = None if text is None else self.index.parse(text)
        with self.lock:
            self.n_begun += 1
            self.history.setdefault(key, []).append((self.n_begun, rule))
        yield text
        self.n_ended = self.n_begun

    # ---------------------------------------------------------------- what may be there

    def wrong(self, found: dict[str, list[Any]], span: range) -> list[str]:
        """What is wrong with the rules of this thread's keys, which are taken out of `found`, if they were read
        after one of the changes of `span` and before the next."""
        with self.lock:
            history = [(key, list(changes)) for key, changes in self.history.items()]
        moments, wrong = set(span), []
        for key, changes in history:
            rules = found.pop(key, [])
            fit = [one for rule, one in _during(changes, span) if rules == _listed(rule)]
            if not fit:
                wrong.append(f"{key} has {self._shown(rules)} in {span} of {self._known(changes)}")
            elif fit != [span]:
                moments &= {moment for some in fit for moment in some}
        if not (wrong or moments):
            wrong.append(f"the keys of {self.name} are of different moments in {span}")
        return wrong

    def _known(self, changes: list[tuple[int, Any]]) -> str:
        return ", ".join(f"{number}: {self._shown(_listed(rule))}" for number, rule in changes[-9:])

    def _shown(self, rules: list[Any]) -> list[str]:
        return [find_engine(self.engine).language.format(rule) for rule in rules]

    def some_keys(self) -> list[str]:
        """Keys to ask for: some that always have a rule, and some that were new a moment ago."""
        with self.lock:
            keys = list(self.history)
        return [*self.random.choices(keys[:_ALWAYS], k=2), *self.random.choices(keys[-20:], k=2)]

    def event_of(self, key: str) -> Any:
        """An event that every rule of a key matches, also each of the next `_AHEAD`."""
        with self.lock:
            numbers = [number for number, _ in self.history[key]]
            numbers += range(self.n_begun + 1, self.n_begun + _AHEAD)
        names = [f"n{self.name}{number}" for number in numbers]
        if self.engine == "tags":
            return {key, *names}
        if self.engine == "predicates":
            return {"key": key, "n": names}
        return f"<e><{key}>{''.join(f'<{name}/>' for name in names)}</{key}></e>"

    def answers(self, key: str, span: range) -> list[list[str]]:
        """What an event of `event_of` may match during a span."""
        with self.lock:
            changes = list(self.history[key])
        none: list[list[str]] = [[]] if len(span) >= _AHEAD else []  # the event lacks later rules
        return none + [[key] * len(_listed(rule)) for rule, _ in _during(changes, span)]


def _listed(rule: Any) -> list[Any]:
    return [] if rule is None else [rule]


def _during(changes: list[tuple[int, Any]], span: range) -> Iterator[tuple[Any, range]]:
    """What a key had during a span of changes, and the part of the span in which it had that."""
    for (first, rule), (end, _) in pairwise([(0, None), *changes, (span.stop, None)]):
        during = range(max(first, span.start), min(end, span.stop))
        if during:
            yield rule, during
