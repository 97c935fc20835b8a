"""Records in a file that is only appended to, with checks that find damage and what lies behind it.

    head      8 "myrecs" and form 1, 16 salt, 16 id of the boot in which the file was begun, 8 check of these
    record    4 marker, 4 length of the body, 8 sequence from 1, 8 sequence up to which the file was synced when the
              record was written, 4 check of these 24, the body, 8 check of all before it

Numbers are big-endian. Checks are keyed BLAKE2b, cut to their length. The key is the salt, and the marker follows from
it: a client that chooses bodies knows neither, so no part of a body looks like a record. A check does not cover the
records before its own, so records behind damage can still be verified. No body is read before the check of its length,
and none that is longer than the rest of the file: memory is bounded by the largest record.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import UUID

from matchyard.errors import StorageError, UsageError

FORM = b"myrecs\x00\x01"
MOST_BYTES = (1 << 32) - 1  # of a body
_FILE = struct.Struct(">8s16s16s")
_RECORD = struct.Struct(">4sIQQ")
_CHECK_BYTES, _HEAD_CHECK_BYTES = 8, 4
FILE_HEAD_BYTES = _FILE.size + _CHECK_BYTES
RECORD_HEAD_BYTES = _RECORD.size + _HEAD_CHECK_BYTES
_BLOCK_BYTES = 1 << 16
BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> bytes:
    """The id that the kernel drew when the machine started. A system that has none gives another id at each call, so
    that a file is always one of another boot: then no honest end of a file is taken for damage."""
    try:
        return UUID(BOOT_FILE.read_text().strip()).bytes
    except (OSError, ValueError):
        return secrets.token_bytes(16)


def file_head(salt: bytes) -> bytes:
    """The head of a file that begins in this boot."""
    head = _FILE.pack(FORM, salt, boot_id())
    check: bytes = Checks(salt).of(head).digest()
    return head + check


class Checks:
    """The keyed checks of one file."""

    def __init__(self, salt: bytes) -> None:
        self._keyed = hashlib.blake2b(key=salt, digest_size=_CHECK_BYTES)
        self.marker = self._keyed.digest()[:4]

    def of(self, data: bytes) -> Any:
        """A BLAKE2b that has read `data` and can read on."""
        check = self._keyed.copy()
        check.update(data)
        return check

    def framed(self, sequence: int, synced: int, body: bytes) -> bytes:
        """The bytes of a record."""
        if len(body) > MOST_BYTES:
            raise UsageError(f"a record of {len(body)} bytes; expected at most {MOST_BYTES}")
        head = _RECORD.pack(self.marker, len(body), sequence, synced)
        check = self.of(head)
        head += check.digest()[:_HEAD_CHECK_BYTES]
        check.update(body)
        return b"".join((head, body, check.digest()))


class _Head(NamedTuple):
    """The verified head of a record."""

    sequence: int
    synced: int
    length: int
    check: Any  # that has read the head
    end: int  # of the whole record in the file


class _Left(NamedTuple):
    """The good records behind a bad one."""

    n_records: int = 0
    first: int = 0
    last: int = 0
    synced: int = 0  # the highest sequence up to which they say that the file was synced

    def and_one(self, head: _Head) -> _Left:
        first = self.first or head.sequence
        return _Left(self.n_records + 1, first, head.sequence, max(self.synced, head.synced))


class Reader:
    """Reads the bodies of a file in order, up to the first bad record; then it can tell what follows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}") from None
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self._read_head()
        except BaseException:
            self._file.close()
            raise
        self.end = FILE_HEAD_BYTES  # of the last record that was read
        self.sequence = 0  # of that record

    def _read_head(self) -> None:
        head = self._file.read(FILE_HEAD_BYTES)
        if len(head) < FILE_HEAD_BYTES:
            raise StorageError(
                f"{self._path} is damaged: it has {self.size} bytes; expected a head of {FILE_HEAD_BYTES}"
            )
        form, self.salt, self.boot = _FILE.unpack(head[: _FILE.size])
        self._checks = Checks(self.salt)
        if form != FORM or self._checks.of(head[: _FILE.size]).digest() != head[_FILE.size :]:
            raise StorageError(
                f"{self._path} is damaged at byte 0: its head is not as it was written"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        while head := self._head_at(self.end):
            body = self._body(head) if head.sequence == self.sequence + 1 else None
            if body is None:
                return
            self.end, self.sequence = head.end, head.sequence
            yield body

    def check_whole(self) -> None:
        """Raise StorageError if anything follows the last good record, in a file that was written whole."""
        if self.end < self.size:
            raise self._damage(self._left())

    def check_torn(self, is_same_boot: bool) -> None:
        """Raise StorageError if what follows the last good record is damage, and not the end of a write that was
        interrupted. A kill leaves a record that is too short, and nothing else. A power cut leaves anything behind the
        last sync; so it comes into question in another boot only."""
        if is_same_boot and self._is_short():
            return
        left = self._left()
        if is_same_boot or left.synced > self.sequence:
            raise self._damage(left)

    def _is_short(self) -> bool:
        head = self._head_at(self.end)
        is_next = head is not None and head.sequence == self.sequence + 1 and head.end > self.size
        return is_next or self.size - self.end < RECORD_HEAD_BYTES

    def _damage(self, left: _Left) -> StorageError:
        behind = f" ({left.first} to {left.last})" if left.n_records else ""
        return StorageError(
            f"{self._path} is damaged at byte {self.end}: expected record {self.sequence + 1} there. The "
            f"{self.sequence} records before it are whole, and {left.n_records} behind it{behind}. Restore "
            "the file from a copy"
        )

    def _head_at(self, at: int) -> _Head | None:
        self._file.seek(at)
        data = self._file.read(RECORD_HEAD_BYTES)
        if len(data) < RECORD_HEAD_BYTES or not data.startswith(self._checks.marker):
            return None
        check = self._checks.of(data[: _RECORD.size])
        if check.digest()[:_HEAD_CHECK_BYTES] != data[_RECORD.size :]:
            return None
        _, length, sequence, synced = _RECORD.unpack(data[: _RECORD.size])
        return _Head(sequence, synced, length, check, at + len(data) + length + _CHECK_BYTES)

    def _body(self, head: _Head) -> bytes | None:
        """The body behind a head that was read just now, or None."""
        if head.end > self.size:
            return None
        body = self._file.read(head.length)
        head.check.update(body)
        return body if self._file.read(_CHECK_BYTES) == head.check.digest() else None

    def _left(self) -> _Left:
        left, at = _Left(), self.end
        while at >= 0:
            head = self._head_at(at)
            if head and head.sequence > self.sequence and self._body(head) is not None:
                left, at = left.and_one(head), head.end
            else:
                at = self._next_marker(at + 1)
        return left

    def _next_marker(self, at: int) -> int:
        """The place of the next marker, or -1."""
        marker = self._checks.marker
        while at < self.size:
            self._file.seek(at)
            found = self._file.read(_BLOCK_BYTES).find(marker)
            if found >= 0:
                return at + found
            at += _BLOCK_BYTES - len(marker) + 1
        return -1
