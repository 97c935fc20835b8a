"""Save on a full disk, in a read-only folder, or under a limit on the size of files: a save that
fails raises an error, and the version before it is intact."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import matchyard as my
from tests.torture import inputs
from tests.torture.arena import Clock, Tally, in_children, seeded, split


def run(folder: Path, seed: int, seconds: float, least: int = 0) -> Tally:
    """Save under random conditions until time is up."""
    tally, random, clock = Tally("disks"), seeded(seed, "disks"), Clock(seconds, least)
    jobs = []
    while clock.goes_on() and len(jobs) < 20_000:
        engine = random.choice(my.ENGINES)
        how = random.choice(list(_CONDITIONS))
        jobs.append((folder / f"{engine}-disk.index", engine, how, random.getrandbits(32)))
        if len(jobs) == 50 or len(jobs) == least:
            for job, outcome in in_children(jobs, _attempt):
                kind, more = split(outcome)
                tally.count(kind, f"{job[1:]} {more}")
            jobs = []
    return tally


def _attempt(job: tuple[Path, str, str, int]) -> str:
    path, engine, how, seed = job
    random = Random(seed)
    probe = [inputs.event(engine, random) for _ in range(3)]
    index = my.create(engine)
    for number in range(20):
        index.add(inputs.subscription(engine, random), number)
    index.save(path)
    before = inputs.answers(index, probe)
    index.add(inputs.subscription(engine, random), 99)
    after = inputs.answers(index.consolidate(), probe)
    is_saved = False
    with _CONDITIONS[how](path, random):
        try:
            index.save(path)
            is_saved = True
        except my.StorageError:
            pass
    found = inputs.answers(my.open(path, verify=True), probe)
    if found not in (after if is_saved else before, after):
        return "lost: another state is on disk"
    if inputs.answers(index, probe) != after:
        return "wrong: the index in memory has changed"
    index.save(path)  # now that there is room
    found = inputs.answers(my.open(path, verify=True), probe)
    return ("saved" if is_saved else "refused") if found == after else "lost: the save after it"


@contextmanager
def _full(path: Path, random: Random) -> Iterator[None]:
    """Let calls that write fail after some calls, as on a full disk."""
    names = ["write", "fsync", "rename", "replace", "open", "mkdir"]
    left, real = [random.randint(0, 40)], {name: getattr(os, name) for name in names}

    def failing(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real[name](*arguments, **more)

        return call

    for name in ("fsync", "rename", "replace", "mkdir"):
        setattr(os, name, failing(name))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@contextmanager
def _limited(path: Path, random: Random) -> Iterator[None]:
    """Limit the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (random.choice([0, 100, 600, 3000]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def _few_descriptors(path: Path, random: Random) -> Iterator[None]:
    """Limit the number of open files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    limit = max(3, open_now - 1 + random.randint(0, 3))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def _in_the_way(path: Path, random: Random) -> Iterator[None]:
    """Put a file at the path of a folder, or a folder at the path of a file."""
    place = path / random.choice(["CURRENT.new", "versions"])
    aside = path.with_name("aside")
    if place.exists():
        place.rename(aside)
        place.write_text("in the way")
    else:
        place.mkdir()
    try:
        yield
    finally:
        place.rmdir() if place.is_dir() else place.unlink(missing_ok=True)
        if aside.exists():
            aside.rename(place)


_CONDITIONS: dict[str, Callable[[Path, Random], Any]] = {
    "full": _full,
    "file size": _limited,
    "descriptors": _few_descriptors,
    "in the way": _in_the_way,
}
