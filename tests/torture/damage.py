"""Damage a journal: a byte that is changed or doubled, and an end anywhere."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from matchyard.errors import StorageError
from matchyard.storage import Journal
from tests.torture.arena import Clock, Tally, outcome_of, seeded, split
from tests.torture.disk import boots, no_syncs, quiet


def read(path: Path) -> list[bytes]:
    """Open a journal and return its bodies."""
    bodies = list[bytes]()
    Journal.open(path, bodies.append).close()
    return bodies


class Written:
    """A journal of groups of records that were synced one by one."""

    def __init__(self, path: Path, random: Random, n_bytes: int, n_groups: int) -> None:
        journal = Journal.create(path)
        self.ends, self.bodies = [journal.size_bytes], list[bytes]()
        for group in range(1, n_groups + 1):
            self.n_before = len(
                self.bodies
            )  # records of which a later record says that they were synced
            while journal.size_bytes < n_bytes * group // n_groups:
                self.bodies.append(random.randbytes(random.randint(0, n_bytes // n_groups)))
                journal.append([self.bodies[-1]])
                self.ends.append(journal.size_bytes)
            journal.sync(journal.sequence)
        journal.close()
        self.data, self._path = path.read_bytes(), path
        self._view = memoryview(self.data)

    def changed(self, at: int, is_doubled: bool, is_after_boot: bool) -> str:
        """Change or double a byte: refused with the place, or the same bodies. After a boot, records of which no later
        one says that they were synced may be cut off."""
        other = self._view[at:] if is_doubled else bytes([self.data[at] ^ (1 + at % 255)])
        try:
            found, is_cut = self._opened(other, at + is_doubled, len(self.data) + is_doubled)
        except StorageError as error:
            place = re.search(r"at byte (\d+)", str(error))
            begin = max((end for end in self.ends if end <= at), default=0)
            is_right = place is not None and begin <= int(place[1]) <= at + 1
            return "refused" if is_right else f"wrong: {error}"
        if found == self.bodies:
            return "same"
        if found != self.bodies[: len(found)]:
            return "wrong: other bodies than those that were written"
        is_allowed = is_cut and is_after_boot and len(found) >= self.n_before
        return "cut" if is_allowed else f"lost: {len(found)} of {len(self.bodies)} records"

    def ended(self, end: int) -> str:
        """End the file early: what lies before the end, and a warning if a record has only a part."""
        n_whole = sum(one <= end for one in self.ends) - 1
        with quiet() as said:
            try:
                found, is_cut = self._opened(b"", 0, end)
            except StorageError as error:  # the head was on disk before the file had its name
                is_right = n_whole < 0 and "is damaged" in str(error)
                return "refused" if is_right else f"wrong: {error}"
        if found != self.bodies[:n_whole]:
            return f"lost: {len(found)} of {n_whole} records"
        is_torn = end not in self.ends
        if not is_cut == is_torn == bool(said):
            return f"wrong: {len(said)} warnings"
        return "torn" if is_torn else "whole"

    def _opened(self, other: bytes | memoryview, at: int, length: int) -> tuple[list[bytes], bool]:
        """The bodies of the file with other bytes at a place and another length, and whether a part was cut off."""
        cut = self._path.with_name(f"{self._path.name}.cut")
        cut.unlink(missing_ok=True)
        first_changed = at
        with self._path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), other, at)
            file.truncate(length)
            try:
                found = read(self._path)
                first_changed = 0  # a part may be cut off
                kept = cut.read_bytes() if cut.exists() else b""
                expected = b"".join((self.data[:at], other, self.data[at + len(other) :]))[:length]
                assert self._path.read_bytes() + kept == expected, "bytes are gone"
            finally:
                os.pwrite(file.fileno(), self._view[first_changed:], first_changed)
                file.truncate(len(self.data))
        return found, bool(kept)


def changes(folder: Path, seed: int, seconds: float, n_bytes: int) -> Tally:
    """Change and double each byte of a small journal, then some of a large one, in the boot that wrote it and in the
    next."""
    tally, random = Tally("journal, bytes changed and doubled"), seeded(seed, "changes")
    with boots(folder) as start, quiet(), no_syncs():
        small = Written(folder / "small", random, n_bytes, 8)
        large = Written(folder / "large", random, 1 << 20, 40)
        for is_after_boot in (False, True):
            if is_after_boot:
                start()
            for at in range(len(small.data)):
                _count_change(tally, small, at, False, is_after_boot)
                _count_change(tally, small, at, True, is_after_boot)
            clock = Clock(seconds / 2)
            while clock.goes_on():
                at = random.randrange(len(large.data))
                _count_change(tally, large, at, random.random() < 0.5, is_after_boot)
    return tally


def _count_change(
    tally: Tally, journal: Written, at: int, is_doubled: bool, is_after_boot: bool
) -> None:
    kind, more = split(outcome_of(lambda: journal.changed(at, is_doubled, is_after_boot)))
    tally.count(kind, f"byte {at}, doubled {is_doubled}, after a boot {is_after_boot} {more}")


def ends(folder: Path, seed: int, n_bytes: int) -> Tally:
    """End a journal behind each byte, in the boot that wrote it and in the next."""
    tally = Tally("journal, early ends")
    with boots(folder) as start, no_syncs():
        journal = Written(folder / "ends", seeded(seed, "ends"), n_bytes, 8)
        for _ in range(2):
            for end in range(len(journal.data) + 1):
                kind, more = split(outcome_of(lambda: journal.ended(end)))  # noqa: B023
                tally.count(kind, f"end {end} {more}")
            start()
    return tally


def every_byte(folder: Path, seed: int, part: int, n_parts: int) -> Tally:
    """Change and double each byte of one part of a journal of 1 MiB, in the boot that wrote it. All parts together take
    about an hour of CPU time."""
    tally = Tally(f"journal, every byte of 1 MiB, part {part} of {n_parts}")
    with boots(folder), quiet(), no_syncs():
        journal = Written(folder / "whole", seeded(seed, "whole"), 1 << 20, 40)
        n_bytes = len(journal.data)
        for at in range(part * n_bytes // n_parts, (part + 1) * n_bytes // n_parts):
            for is_doubled in (False, True):
                _count_change(tally, journal, at, is_doubled, False)
    return tally


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        print(every_byte(Path(place), 1, int(sys.argv[1]), int(sys.argv[2])))
