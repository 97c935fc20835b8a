"""A disk that loses power: what a file may hold afterwards, by what was written and what was synced.

The system keeps written pages in memory and marks them. A sync writes the marked pages to the disk. A sync that fails
takes the mark off, too, so that the next sync writes nothing: that is how Linux does it. A power cut leaves each page
behind the last sync as it was, as it became, in part, or as zeros, and a length between the two.
"""

from __future__ import annotations

import errno
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from matchyard.storage import records

_PAGE_BYTES = 512  # of a sector; small pages make more of them


@dataclass
class Disk:
    """The disk beneath the files that `watched` sees, by inode."""

    random: Random
    kept: dict[int, bytearray] = field(default_factory=dict)  # what is on the disk
    marked: dict[int, set[int]] = field(default_factory=dict)  # pages that a sync writes
    fail_sync: bool = False  # let the next sync fail
    fail_write: bool = False  # let the next write fail, with a part of it written

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the calls of the system by which files are written and synced."""
        pwrite, fsync = os.pwrite, os.fsync
        os.pwrite = lambda *given: self._write(pwrite, *given)
        os.fsync = self._sync
        try:
            yield
        finally:
            os.pwrite, os.fsync = pwrite, fsync

    def _write(self, write: Any, file: int, data: Any, at: int) -> int:
        length = len(data)
        if self.fail_write:
            self.fail_write, length = False, self.random.randrange(len(data))
            self._mark(file, at, write(file, data[:length], at))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n_written: int = write(file, data, at)
        self._mark(file, at, n_written)
        return n_written

    def _mark(self, file: int, at: int, length: int) -> None:
        pages = range(at // _PAGE_BYTES, (at + length - 1) // _PAGE_BYTES + 1)
        self.marked.setdefault(os.fstat(file).st_ino, set()).update(pages)
        if self.random.random() < 0.2:  # the system writes when it likes, too
            self._write_marked(file)

    def _sync(self, file: int) -> None:
        number = os.fstat(file).st_ino
        if self.fail_sync:
            self.fail_sync = False
            self.marked.pop(number, None)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not os.path.isdir(f"/proc/self/fd/{file}"):
            self._write_marked(file)

    def _write_marked(self, file: int) -> None:
        number, now = os.fstat(file).st_ino, Path(f"/proc/self/fd/{file}").read_bytes()
        kept = self.kept.setdefault(number, bytearray(now))  # a new file was written by other calls
        kept[:] = kept[: len(now)].ljust(len(now), b"\0")
        for page in self.marked.pop(number, set()):
            place = slice(page * _PAGE_BYTES, (page + 1) * _PAGE_BYTES)
            kept[place] = now[place]

    def cut_power(self, path: Path) -> bool:
        """Leave in a file what a power cut might; True if it differs from what was written."""
        number, after = path.stat().st_ino, path.read_bytes()
        before = bytes(self.kept[number])
        low, high = sorted((len(before), len(after)))
        length = self.random.choice([low, high, self.random.randint(low, high)])
        left = bytearray()
        for at in range(0, length, _PAGE_BYTES):
            old = before[at : at + _PAGE_BYTES].ljust(_PAGE_BYTES, b"\0")
            new = after[at : at + _PAGE_BYTES].ljust(_PAGE_BYTES, b"\0")
            part = self.random.randrange(_PAGE_BYTES)
            left += self.random.choice(
                [old, new, new, new[:part] + old[part:], old[:part] + new[part:]]
            )
        del left[length:]
        path.write_bytes(left)
        self.kept[number], self.marked = left, {}
        return left != after


@contextmanager
def no_syncs() -> Iterator[None]:
    """Let syncs do nothing, which no kill and no reader notices."""
    fsync, os.fsync = os.fsync, lambda file: None
    try:
        yield
    finally:
        os.fsync = fsync


@contextmanager
def boots(folder: Path) -> Iterator[Any]:
    """Let a call of what this yields be a start of the machine."""
    real, records.BOOT_FILE = records.BOOT_FILE, folder / "boot_id"

    def start() -> None:
        records.BOOT_FILE.write_text(f"{uuid.uuid4()}\n")

    start()
    try:
        yield start
    finally:
        records.BOOT_FILE = real


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Collect warnings instead of printing them."""
    said = list[str]()
    log, collector = logging.getLogger("matchyard"), logging.Handler()
    collector.emit = lambda one: said.append(one.getMessage())  # type: ignore[method-assign]
    was = log.propagate
    log.addHandler(collector)
    log.propagate = False
    try:
        yield said
    finally:
        log.removeHandler(collector)
        log.propagate = was
