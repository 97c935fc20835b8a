"""The bytes of the files of a saved index: small files are read, large ones are mapped.

Only regular files below the folder of the index are opened: a pipe would never answer, a device may
do anything, and a link could lead to any file of the machine. A mapping needs a file descriptor
before Python 3.13; a file that was read needs none.
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

READ_BYTES = 1 << 20  # smaller files are read, so hundreds of small indexes need no descriptors
# O_NONBLOCK opens a pipe without a writer, so that it can be refused; O_NOFOLLOW refuses links.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


class Contents:
    """The files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._root = folder, os.path.realpath(folder)
        self._is_inside = {""}  # subfolders that are known to be no link to the outside

    def of(self, name: str, size_bytes: int | None = None) -> NDArray[np.uint8]:
        """The bytes of a file, read-only; raises if the file does not have the given size."""
        try:
            descriptor = self._open(name)
            try:
                n_bytes = os.fstat(descriptor).st_size
                if size_bytes is not None and n_bytes != size_bytes:
                    raise StorageError(
                        f"{self._folder / name} has {n_bytes} bytes, expected {size_bytes}: "
                        "it is damaged"
                    )
                return _read(descriptor, n_bytes) if n_bytes <= READ_BYTES else _map(descriptor)
            finally:
                os.close(descriptor)
        except StorageError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(self._folder / name, error) from None

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file, at most `most`; FileNotFoundError if the file does not exist."""
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
        """The path of a subfolder; refuses one that is a link to the outside."""
        if name not in self._is_inside:
            path = os.path.realpath(f"{self._root}/{name}")
            if os.path.commonpath([self._root, path]) != self._root:
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
            raise OSError(errno.EIO, f"the file ended after {done} of {size_bytes} bytes")
        done += n_read
    data.flags.writeable = False
    return data


def _map(descriptor: int) -> NDArray[np.uint8]:
    # Before 3.13, Python keeps a copy of the descriptor.
    options: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options), np.uint8)


def unreadable(path: Path, error: Exception) -> StorageError:
    """The StorageError for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return StorageError(f"{path} is missing: {error}")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return StorageError(
            f"{path} cannot be opened, since too many files are open: each array of more than "
            f"{READ_BYTES >> 20} MiB needs a descriptor; raise the limit, e.g. `ulimit -n 65536`"
        )
    return StorageError(f"{path} cannot be read: {error}")


def open_lock(path: Path) -> Any:
    """Open a file for locking, and create it if needed; follows no link and waits for no pipe."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise StorageError(f"{path} is no regular file")
    return file


def sync_folder(folder: Path) -> None:
    """Write the names of the files in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
