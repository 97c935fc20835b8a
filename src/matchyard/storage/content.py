"""The bytes of a file of a saved index: a small file is read, a large one is mapped.

Only regular files below the folder of the index are opened: a pipe would never answer, a device
may do anything, and a link could show any file of the machine. A
mapping costs a file descriptor where Python cannot do without; a file that was read costs none.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import StorageError

READ_BYTES = 1 << 20  # up to this size files are read: hundreds of small indexes need no descriptor
# A pipe is opened without waiting for its writer, and then refused; a link is not followed.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


class Contents:
    """The files below one folder, which is resolved once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._root = folder, os.path.realpath(folder)
        self._is_inside = {""}  # folders below it that lead nowhere else

    def of(self, name: str, size_bytes: int | None = None) -> NDArray[np.uint8]:
        """The bytes of a file, read-only; of a given size, where one is given."""
        try:
            descriptor = self._open(name)
            try:
                found = os.fstat(descriptor).st_size
                if size_bytes is not None and found != size_bytes:
                    raise StorageError(
                        f"{self._folder / name} has {found} bytes, expected {size_bytes}: "
                        "it is damaged"
                    )
                return _read(descriptor, found) if found <= READ_BYTES else _map(descriptor)
            finally:
                os.close(descriptor)
        except StorageError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(self._folder / name, error) from None

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file that has at most so many; FileNotFoundError where there is none."""
        descriptor = self._open(name)
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(most + 1)
        finally:
            os.close(descriptor)
        if len(data) > most:
            raise StorageError(f"{self._folder / name} has more than {most} bytes: it is damaged")
        return data

    def folder(self, name: str) -> Path:
        """A folder below this one, which links must not lead out of."""
        if name not in self._is_inside:
            where = os.path.realpath(f"{self._root}/{name}")
            if os.path.commonpath([self._root, where]) != self._root:
                raise StorageError(f"{self._folder / name} is a link that leads out of the index")
            self._is_inside.add(name)
        return self._folder / name

    def _open(self, name: str) -> int:
        self.folder(name.rpartition("/")[0])
        try:
            descriptor = os.open(f"{self._root}/{name}", _FLAGS)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StorageError(f"{self._folder / name} is a link; expected a file") from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StorageError(
                f"{self._folder / name} is no regular file; an index consists of regular files"
            )
        return descriptor


def _read(descriptor: int, size_bytes: int) -> NDArray[np.uint8]:
    data = np.empty(size_bytes, np.uint8)
    done = 0
    while done < size_bytes:
        n_read = os.readv(descriptor, [data.data[done:]])
        if not n_read:
            raise OSError(errno.EIO, "the file ended before its end")
        done += n_read
    data.flags.writeable = False
    return data


def _map(descriptor: int) -> NDArray[np.uint8]:
    # From 3.13 on Python need not keep a copy of the descriptor.
    options: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options), np.uint8)


def unreadable(path: Path, error: Exception) -> StorageError:
    """What to say of a file that cannot be had."""
    if isinstance(error, FileNotFoundError):
        return StorageError(f"{path} is missing: {error}")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return StorageError(
            f"{path} cannot be opened, since too many files are open: each array of more than "
            f"{READ_BYTES >> 20} MiB needs a descriptor; raise the limit, e.g. `ulimit -n 65536`"
        )
    return StorageError(f"{path} cannot be read: {error}")
