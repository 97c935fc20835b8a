"""Ctrl-C at any moment must raise only KeyboardInterrupt and leave the index usable. A fork at any
moment must give a child that can match."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import matchyard as my
from tests.torture import inputs
from tests.torture.arena import Clock, Tally, describe, seeded, without_collector_callbacks


def run(seed: int, seconds: float, least: int = 0) -> list[Tally]:
    """Interrupt for two thirds of the time, and fork for the rest."""
    return [_interrupts(seed, seconds * 2 / 3, least), _forks(seed, seconds / 3, least // 4)]


def _interrupts(seed: int, seconds: float, least: int) -> Tally:
    tally, random, clock = Tally("Ctrl-C"), seeded(seed, "signals"), Clock(seconds, least)
    errors: list[str] = []
    hook, unraisable = threading.excepthook, sys.unraisablehook
    threading.excepthook = lambda told: errors.append(f"in a thread: {told.exc_value!r}")
    sys.unraisablehook = lambda told: errors.extend(_told(told))
    before = signal.signal(signal.SIGALRM, _raise)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="signals-") as folder,
            without_collector_callbacks(),
        ):
            benches = [_Bench(engine, Path(folder), random) for engine in my.ENGINES]
            while clock.goes_on():
                bench = random.choice(benches)
                name, work = random.choice(bench.works)
                try:
                    kind = bench.interrupt(work, random)
                except KeyboardInterrupt:  # the last one came when it had already been counted
                    kind = "interrupted"
                if errors:
                    kind = f"crashed: {errors.pop()}"
                what, _, more = kind.partition(": ")
                tally.count(what, f"{bench.engine} {name} {more}")
    finally:
        _armed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        threading.excepthook, sys.unraisablehook = hook, unraisable
    return tally


_armed: list[bool] = []  # not empty while signals are to interrupt


def _raise(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt as Ctrl-C does; ignore a signal after the timer was stopped."""
    if _armed:
        raise KeyboardInterrupt


def _told(told: Any) -> list[str]:
    """The text of an error that Python ignored; none for files closed by the garbage collector."""
    error = told.exc_value
    return [] if isinstance(error, ResourceWarning) else [f"ignored: {error!r} in {told.object!r}"]


class _Bench:
    """An index of one engine, and calls that take long enough to interrupt."""

    def __init__(self, engine: str, folder: Path, random: Random) -> None:
        self.engine = engine
        self.index: Any = my.create(engine)
        for number in range(300):
            self.index.add(inputs.subscription(engine, random), number)
        self.index.consolidate()
        self.events = [inputs.event(engine, random) for _ in range(400)]
        self.expected = inputs.answers(self.index, self.events[:20])
        self.path = folder / f"{engine}.index"
        self.index.save(self.path)
        self.row = inputs.subscription(engine, random)
        self.works: list[tuple[str, Callable[[], Any]]] = [
            ("match", lambda: self.index.match(self.events)),
            ("match_unique", lambda: self.index.match_unique(self.events)),
            ("one event", lambda: [self.index.match([event]) for event in self.events[:50]]),
            ("consolidate", self._consolidate),
            ("save", lambda: self.index.save(self.path)),
            ("open", lambda: my.open(self.path, verify=True)),
            ("explain", lambda: self.index.explain(self.events[0], 1)),
        ]

    def _consolidate(self) -> None:
        self.index.add(self.row, 999)
        self.index.remove(999)
        self.index.consolidate()

    def interrupt(self, work: Callable[[], Any], random: Random) -> str:
        """Interrupt a call once or repeatedly; then check the answers of the index."""
        delays = [random.choice([0.0002, 0.002, 0.02]) * random.random() + 1e-6]
        try:
            try:
                _armed.append(True)
                signal.setitimer(
                    signal.ITIMER_REAL, delays[0], 0.0003 if random.random() < 0.2 else 0
                )
                work()
                outcome = "completed"
            except KeyboardInterrupt:
                outcome = "interrupted"
            finally:
                _armed.clear()
        except KeyboardInterrupt:  # it came between the two
            _armed.clear()
            outcome = "interrupted"
        except BaseException as error:
            _armed.clear()
            return f"crashed: {describe(error)}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.index.remove(999)
        self.index.consolidate()
        if inputs.answers(self.index, self.events[:20]) != self.expected:
            return "wrong: after an interrupt"
        return outcome


def _forks(seed: int, seconds: float, least: int) -> Tally:
    """Fork children while threads match and change indexes: each child must answer correctly."""
    tally, random, clock = Tally("forks"), seeded(seed, "forks"), Clock(seconds, least)
    indexes = {}
    for engine in my.ENGINES:
        index = my.create(engine, live=True)
        for number in range(50):
            index.add(inputs.subscription(engine, random), number)
        events = [inputs.event(engine, random) for _ in range(20)]
        indexes[engine] = (index, events, inputs.answers(index, events))
    is_over = threading.Event()

    def disturb(engine: str) -> None:
        index, events, _ = indexes[engine]
        while not is_over.is_set():
            index.match(events)
            index.remove(-5)
            time.sleep(0.0005)

    threads = [
        threading.Thread(target=disturb, args=(engine,), daemon=True) for engine in my.ENGINES
    ]
    for thread in threads:
        thread.start()
    while clock.goes_on():
        engine = random.choice(my.ENGINES)
        tally.count(_fork(*indexes[engine]), engine)
    is_over.set()
    for thread in threads:
        thread.join(30)
    return tally


def _fork(index: Any, events: list[Any], expected: Any) -> str:
    child = os.fork()
    if child == 0:
        try:
            index.add(_any(index), 7)
            index.remove(7)
            found = index.match(events)
            # Key 7 is gone; all else is as it was.
            want = [[key for key in keys if key != "7"] for keys in expected]
            is_right = [sorted(map(repr, keys)) for keys in found] == want
            os._exit(0 if is_right else 3)
        except BaseException as error:
            os.write(2, f"{describe(error)}\n".encode())
        finally:
            os._exit(4)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return {0: "right", 3: "wrong"}.get(os.waitstatus_to_exitcode(status), "crashed")
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def _any(index: Any) -> Any:
    return {"tags": "a", "predicates": "a exists", "twigs": "//a"}[index.engine]
