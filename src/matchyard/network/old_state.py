"""The files of a station's state as they were before they became journals. They are read once; a checkpoint replaces
them.

A record was 4 bytes length, 4 bytes CRC-32 of the body, 4 bytes CRC-32 of these eight, and the body.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from matchyard.errors import StorageError
from matchyard.storage import cut_off

_RECORD, _CHECK = struct.Struct(">II"), struct.Struct(">I")
_HEAD_BYTES = _RECORD.size + _CHECK.size


def is_old(path: Path) -> bool:
    """True if a file begins with the head of such a record."""
    try:
        with path.open("rb") as file:
            return _lengths(file.read(_HEAD_BYTES), 0) is not None
    except OSError:  # told by the reader of the other form
        return False


def records(path: Path, is_log: bool = False) -> Iterator[bytes]:
    """The records of a file. What may be the end of an interrupted write is cut off a log and kept: these files do
    not tell it from damage of the last record."""
    if is_log and not path.exists():  # a kill came between the checkpoint and its log
        return
    data, at = path.read_bytes(), 0
    while at < len(data):
        body = _body_at(data, at)
        if body is None:
            if is_log and (_is_short(data, at) or not _has_record(data, at + 1)):
                cut_off(path, at, "a write was interrupted, or its record is damaged")
                return
            raise StorageError(f"{path} is damaged at byte {at}; expected a record there")
        yield body
        at += _HEAD_BYTES + len(body)


def _lengths(data: bytes, at: int) -> tuple[int, int] | None:
    """The length of the body at a position and its check, or None."""
    head = data[at : at + _RECORD.size]
    if data[at + _RECORD.size : at + _HEAD_BYTES] != _CHECK.pack(zlib.crc32(head)):
        return None
    length, check = _RECORD.unpack(head)
    return length, check


def _body_at(data: bytes, at: int) -> bytes | None:
    """The body of the record at a position, or None."""
    length, check = _lengths(data, at) or (len(data), 0)
    body = data[at + _HEAD_BYTES : at + _HEAD_BYTES + length]
    return body if len(body) == length and zlib.crc32(body) == check else None


def _is_short(data: bytes, at: int) -> bool:
    """True if the last record misses its end, as after a kill. Its body may hold the bytes of a record."""
    length, _ = _lengths(data, at) or (0, 0)
    return at + _HEAD_BYTES + length > len(data)


def _has_record(data: bytes, at: int) -> bool:
    return any(_body_at(data, later) is not None for later in range(at, len(data)))
