"""A journal: records that survive a kill once they are appended, and a power cut once they are synced.

    journal = Journal.create(path)            the file has its name when its head is on disk
    sequence = journal.append([body, …])      in one write; from any thread
    journal.sync(sequence)                    threads that wait at the same time share an fsync
    journal = Journal.open(path, take)        `take` gets the bodies in order

`records` has the form of the file. A file is written in one boot of the machine: so a file of this boot may end in a
record that is too short, and every other bad record is damage. A file of an earlier boot can only be read; its reader
begins a new one. What an interrupted write left is cut off at opening and kept in PATH.cut.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from matchyard.errors import StorageError
from matchyard.storage.content import sync_folder
from matchyard.storage.records import FILE_HEAD_BYTES, Checks, Reader, boot_id, file_head

_log = logging.getLogger("matchyard")
_BLOCK_BYTES = 1 << 20
_EARLIER_BOOT = "it is of an earlier boot; begin a new file"


class Journal:
    """A file of records to append to. Its caller holds a lock against other processes."""

    def __init__(self, path: Path, salt: bytes, end: int, sequence: int) -> None:
        self._path, self._checks = path, Checks(salt)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._tail = end, sequence  # one value: an interrupt finds both new, or none
        self._synced = sequence
        self._refusal = ""  # the reason for which the journal takes no records
        self._appending, self._syncing = threading.Lock(), threading.Lock()

    @classmethod
    def create(cls, path: Path, bodies: Iterable[bytes] = ()) -> Self:
        """Begin a file, in place of any other at this path. It has its name when all `bodies` are on disk: no crash
        leaves a part of them."""
        salt, draft = secrets.token_bytes(16), path.with_name(f"{path.name}.new")
        checks, end, sequence = Checks(salt), FILE_HEAD_BYTES, 0
        try:
            with os.fdopen(_private(draft, os.O_TRUNC), "wb") as file:
                file.write(file_head(salt))
                for body in bodies:
                    sequence += 1
                    end += file.write(checks.framed(sequence, 0, body))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
            sync_folder(path.parent)
            return cls(path, salt, end, sequence)
        except BaseException as error:
            with suppress(OSError):
                draft.unlink()
            if isinstance(error, OSError):
                raise _unwritten(path, error) from error
            raise

    @classmethod
    def open(cls, path: Path, take: Callable[[bytes], None]) -> Self:
        """Give the bodies to `take`, cut off what an interrupted write left, sync the file, and go on with it. Damage is
        a StorageError, and leaves the file as it is."""
        with Reader(path) as reader:
            for body in reader:
                take(body)
            is_of_this_boot = reader.boot == boot_id()
            if reader.end < reader.size:
                reader.check_torn(is_of_this_boot)
        try:
            if reader.end < reader.size:
                cut_off(path, reader.end, _why_torn(is_of_this_boot))
            journal = cls(path, reader.salt, reader.end, reader.sequence)
        except OSError as error:
            raise _unwritten(path, error) from error
        if is_of_this_boot:
            journal._write_again()
        else:
            journal._refusal = _EARLIER_BOOT
        return journal

    @property
    def is_of_this_boot(self) -> bool:
        """False if the file was begun in an earlier boot: it takes no more records."""
        return self._refusal != _EARLIER_BOOT

    @property
    def size_bytes(self) -> int:
        """The length of the file."""
        return self._tail[0]

    @property
    def sequence(self) -> int:
        """The sequence of the last record."""
        return self._tail[1]

    def append(self, bodies: Iterable[bytes]) -> int:
        """Append records; return the sequence of the last one. If it fails, the file has none of them."""
        with self._appending:
            self._check_usable()
            end, sequence = self._tail
            frames = []
            for body in bodies:
                sequence += 1
                frames.append(self._checks.framed(sequence, self._synced, body))
            data = b"".join(frames)
            try:
                self._write(data, end)
                self._tail = end + len(data), sequence
            except BaseException as error:
                self._take_back()
                if isinstance(error, OSError):
                    raise _unwritten(self._path, error) from error
                raise
            return sequence

    def _write(self, data: bytes, at: int) -> None:
        rest = memoryview(data)
        while rest:  # a disk that fills up takes a part; the next write says why
            n_written = os.pwrite(self._file, rest, at)
            rest, at = rest[n_written:], at + n_written

    def _take_back(self) -> None:
        """Remove a part of a write. It is synced: otherwise, its pages could come back after a power cut, behind
        other records of the same sequence."""
        try:
            os.ftruncate(self._file, self._tail[0])
            os.fsync(self._file)
        except OSError as error:
            self._refusal = f"a part of a record could not be taken back: {error.strerror}"

    def sync(self, sequence: int) -> None:
        """Return when the records up to this one are on disk. After a failure, nobody knows which pages are: the
        journal refuses records until it is opened again."""
        if sequence <= self._synced:
            return
        with self._syncing:
            if sequence <= self._synced:
                return
            self._check_usable()
            last = self.sequence
            try:
                os.fsync(self._file)
            except OSError as error:
                self._refusal = f"it could not be synced: {error.strerror}"
                raise _unwritten(self._path, error) from error
            self._synced = last

    def _write_again(self) -> None:
        """Write and sync the bytes that are there. If the sync of an earlier process failed, the system took its pages
        for written: a sync alone would then say that all is well."""
        try:
            for at in range(0, self.size_bytes, _BLOCK_BYTES):
                n_bytes = min(_BLOCK_BYTES, self.size_bytes - at)
                self._write(os.pread(self._file, n_bytes, at), at)
            os.fsync(self._file)
        except OSError as error:
            self.close()
            raise _unwritten(self._path, error) from error

    def _check_usable(self) -> None:
        if self._refusal:
            raise StorageError(f"{self._path} takes no more records: {self._refusal}")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_whole(path: Path) -> Iterator[bytes]:
    """The bodies of a file that `create` wrote and nobody appended to; anything else in it is damage."""
    with Reader(path) as reader:
        yield from reader
        reader.check_whole()


def cut_off(path: Path, end: int, why: str) -> None:
    """Move the bytes of a file from `end` on to the end of PATH.cut."""
    kept = path.with_name(f"{path.name}.cut")
    with path.open("r+b") as file, os.fdopen(_private(kept, os.O_APPEND), "ab") as beside:
        file.seek(end)
        shutil.copyfileobj(file, beside, _BLOCK_BYTES)
        n_bytes = file.tell() - end
        beside.flush()
        os.fsync(beside.fileno())
        sync_folder(path.parent)
        file.truncate(end)
        os.fsync(file.fileno())
    _log.warning(
        "%s: %d bytes from byte %d on are cut off and kept in %s: %s",
        path, n_bytes, end, kept.name, why,
    )  # fmt: skip


def _why_torn(is_of_this_boot: bool) -> str:
    if is_of_this_boot:
        return "a write was interrupted, and nobody was told that it succeeded"
    return (
        "the machine has started again, and no later record says that they were synced before; after a power cut "
        "they were not, but damage at the end of a file looks the same"
    )


def _private(path: Path, flag: int) -> int:
    """Open a file to write to, which only its owner may read: records have what clients sent."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flag
    return os.open(path, flags, 0o600)


def _unwritten(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written: {error.strerror or error}")
