"""Attacks on a journal: power cuts, kills, and the damage of `damage`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

from matchyard.errors import StorageError
from matchyard.storage import Journal
from tests.torture.arena import Clock, Tally, outcome_of, seeded, split
from tests.torture.damage import changes, ends, read
from tests.torture.disk import Disk, boots, no_syncs, quiet


def run(folder: Path, seed: int, seconds: float, is_long: bool) -> list[Tally]:
    """All attacks on a journal."""
    n_bytes = 20_000 if is_long else 2000
    return [
        power_cuts(folder, seed, seconds / 4, 3000 * is_long),
        kills(folder, seed, seconds / 4, 500 * is_long),
        changes(folder, seed, seconds / 3, n_bytes),
        ends(folder, seed, n_bytes),
    ]


# -------------------------------------------------------------------- power cuts


def power_cuts(folder: Path, seed: int, seconds: float, least: int) -> Tally:
    """Write and sync until the power is cut, with kills, full disks and failed syncs before it."""
    tally, clock = Tally("journal, power cuts"), Clock(seconds, least)
    with boots(folder) as start, quiet(), no_syncs():
        while clock.goes_on():
            number = tally.tries
            random = seeded(seed, "power", number)
            path = folder / f"power-{number}"
            kind, more = split(outcome_of(lambda: _life(path, random, start)))  # noqa: B023
            # An honest end must be read: a refusal is wrong here.
            tally.count("wrong" if kind == "refused" else kind, f"life {number} {more}")
            for file in folder.glob(f"{path.name}*"):
                file.unlink()
    return tally


def _life(path: Path, random: Random, start: object) -> str:
    disk, life = Disk(random), _Life(path, random)
    with disk.watched():
        life.journal = Journal.create(path)
        for _ in range(random.randint(0, 12)):
            life.step(disk)
    life.journal.close()
    is_torn = disk.cut_power(path)
    start()  # type: ignore[operator]
    found = read(path)
    if found != life.written[: len(found)]:
        return "wrong: other bodies than those that were written"
    if len(found) < life.n_synced:
        return f"lost: {len(found)} of {life.n_synced} synced records"
    if read(path) != found:
        return "wrong: the second opening finds something else"
    return "torn" if is_torn else "whole"


class _Life:
    """A journal from its beginning to the power cut, with what its callers know."""

    def __init__(self, path: Path, random: Random) -> None:
        self._path, self._random = path, random
        self.written = list[bytes]()  # in the file, and not taken back
        self.n_synced = 0  # of them, as `sync` said
        self.journal: Journal

    def step(self, disk: Disk) -> None:
        """Do one of the things that happen to a journal."""
        random = self._random
        step = random.choice([self._append] * 8 + [self._sync] * 5 + [self._kill])
        disk.fail_write = random.random() < 0.05
        disk.fail_sync = random.random() < 0.05
        try:
            step()
        except StorageError:
            disk.fail_write = disk.fail_sync = False
            if random.random() < 0.5:  # or it goes on with what it has
                self._open_again()
        disk.fail_write = disk.fail_sync = False

    def _append(self) -> None:
        random = self._random
        longest = random.choice([20, 300, 3000])
        bodies = [random.randbytes(random.randint(0, longest)) for _ in range(random.randint(1, 4))]
        self.journal.append(bodies)
        self.written += bodies

    def _sync(self) -> None:
        sequence = self.journal.sequence
        self.journal.sync(sequence)
        self.n_synced = sequence

    def _kill(self) -> None:
        """End the process within a write, or between two."""
        begin = self.journal.size_bytes
        self.journal.append([self._random.randbytes(self._random.randint(0, 900))])
        os.truncate(self._path, self._random.randrange(begin, self.journal.size_bytes))
        self._open_again()

    def _open_again(self) -> None:
        """Open the file in a new process, which starts again if a sync or a write fails."""
        self.journal.close()
        for tries in (2, 1, 0):
            found = list[bytes]()
            try:
                self.journal = Journal.open(self._path, found.append)
                break
            except StorageError:
                if not tries:
                    raise
        assert found == self.written, f"{len(found)} of {len(self.written)} records after a kill"


# -------------------------------------------------------------------- kills


def kills(folder: Path, seed: int, seconds: float, least: int) -> Tally:
    """Kill a process that appends, and go on with its file."""
    tally, clock = Tally("journal, kills"), Clock(seconds, least)
    path = folder / "kills"
    with quiet(), no_syncs():
        while clock.goes_on():
            if tally.tries % 10 == 0:
                Journal.create(path).close()
            random = seeded(seed, "kill", tally.tries)
            kind, more = split(outcome_of(lambda: _kill(path, random)))  # noqa: B023
            tally.count("wrong" if kind == "refused" else kind, f"kill {tally.tries} {more}")
    return tally


def _kill(path: Path, random: Random) -> str:
    acknowledged, child = os.pipe()
    process = os.fork()
    if process == 0:
        _append_for_ever(path, child)
    os.close(child)
    os.read(acknowledged, 1)  # it has begun
    time.sleep(random.random() * 0.003)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    with os.fdopen(acknowledged, "rb") as file:
        lines = file.read().split(b"\n")
    n_appended, size = int(lines[-2] or 0) if len(lines) > 1 else 0, path.stat().st_size
    found = read(path)
    if found != [_body(number + 1) for number in range(len(found))]:
        return "wrong: other bodies than those that were written"
    if len(found) < n_appended:
        return f"lost: {len(found)} of {n_appended} records"
    return "whole" if path.stat().st_size == size else "torn"


def _append_for_ever(path: Path, parent: int) -> None:
    try:
        journal = Journal.open(path, lambda body: None)
        os.write(parent, b" ")
        while True:
            journal.append([_body(journal.sequence + 1)])
            os.write(parent, b"%d\n" % journal.sequence)
    finally:
        os._exit(1)


def _body(sequence: int) -> bytes:
    """A body that follows from its sequence. Long ones let most kills come within a write."""
    return (b"%d," % sequence) * (sequence % 7 * 40_000)
