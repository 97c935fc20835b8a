"""Run attacks in child processes: a crash or a hang is an outcome, and the next try follows."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matchyard as my

PATIENCE_S = 60.0  # a try that takes longer hangs
ALLOWED = (my.MatchyardError, MemoryError)


@dataclass
class Tally:
    """The results of one attack."""

    attack: str
    tries: int = 0
    lost: int = 0
    wrong: int = 0
    crashed: int = 0
    hung: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)  # refused, same, …
    failures: list[str] = field(default_factory=list)  # how to do it again
    seconds: float = 0.0

    def count(self, outcome: str, what: str = "") -> None:
        """Count one try and its outcome; `what` says how to repeat the try."""
        self.tries += 1
        self.outcomes[outcome] += 1
        if outcome in ("lost", "wrong", "crashed", "hung"):
            setattr(self, outcome, getattr(self, outcome) + 1)
            self.failures.append(f"{outcome}: {what}")

    @property
    def is_clean(self) -> bool:
        """True if nothing went wrong."""
        return not (self.lost or self.wrong or self.crashed or self.hung)


class Clock:
    """A budget of seconds, and a least number of tries."""

    def __init__(self, seconds: float, least: int = 0) -> None:
        self._end, self._least, self._n = time.monotonic() + seconds, least, 0

    def goes_on(self) -> bool:
        """True if there is time for another try, or if the tries are still too few."""
        self._n += 1
        return self._n <= self._least or time.monotonic() < self._end


def describe(error: BaseException) -> str:
    """One line about an unexpected exception, with the file and line that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} at {place.filename}:{place.lineno}"


def outcome_of(work: Callable[[], str]) -> str:
    """The result of `work`; "refused" for an allowed error, "crashed: …" for any other."""
    try:
        return work()
    except ALLOWED:
        return "refused"
    except BaseException as error:
        return f"crashed: {describe(error)}"


def in_children(
    jobs: Sequence[Any],
    work: Callable[[Any], str],
    patience_s: float = PATIENCE_S,
    most_bytes: int | None = None,
) -> Iterator[tuple[Any, str]]:
    """The outcome of each job. Forked children do the jobs; a new child replaces one that dies or
    hangs. A child may have `most_bytes` more memory than this process."""
    done = 0
    while done < len(jobs):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _work_through(jobs[done:], work, write, most_bytes)
        os.close(write)
        for outcome in _outcomes(read, child, patience_s, len(jobs) - done):
            yield jobs[done], outcome
            done += 1


def _work_through(
    jobs: Sequence[Any], work: Callable[[Any], str], write: int, most_bytes: int | None
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if most_bytes is not None:
        most = size_bytes() + most_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        for job in jobs:
            line = json.dumps(outcome_of(lambda job=job: work(job))) + "\n"  # type: ignore[misc]
            os.write(write, line.encode())
        os._exit(0)
    finally:
        os._exit(1)


def size_bytes() -> int:
    """Bytes of mapped memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _outcomes(read: int, child: int, patience_s: float, n_jobs: int) -> Iterator[str]:
    """The outcomes that a child reports; then its own end, if it hung or crashed."""
    n_done, text = 0, b""
    while True:
        ready, _, _ = select.select([read], [], [], patience_s)
        if not ready:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read)
            yield "hung"
            return
        some = os.read(read, 1 << 16)
        if not some:
            break
        text += some
        *lines, text = text.split(b"\n")
        for line in lines:
            n_done += 1
            yield json.loads(line)
    os.close(read)
    _, status = os.waitpid(child, 0)
    if n_done < n_jobs:
        yield f"crashed: the process ended with status {status}"


@contextmanager
def without_collector_callbacks() -> Iterator[None]:
    """Run without the callbacks of the garbage collector. Python ignores what a signal raises in
    them, and those of test tools (Hypothesis measures collections) are written in Python."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    try:
        yield
    finally:
        gc.callbacks.extend(callbacks)


def split(outcome: str) -> tuple[str, str]:
    """The kind of an outcome, and its details."""
    kind, _, more = outcome.partition(": ")
    return kind, more


def seeded(seed: int, *what: object) -> random.Random:
    """A random state for the given purpose."""
    return random.Random(f"{seed} {what}")


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
