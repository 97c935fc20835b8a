"""Compressed files and archives from others: nobody unpacks more than was likely meant."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from matchyard.errors import UsageError

_RATIO = 100  # of text; xz makes text 10 to 20 times smaller, and zeros 7,000 times
_ALWAYS = 1 << 26  # bytes that a small file may become


def members(path: Path, is_wanted: Callable[[str], bool], most: int) -> Iterator[tuple[str, bytes]]:
    """The wanted files of a tar archive, compressed or not. A content that is longer than `most`
    bytes is cut behind one byte more."""
    with _Archive.open(path) as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it keeps all headers
            if member.isfile() and is_wanted(member.name):
                content = archive.extractfile(member)
                assert content is not None  # of a file
                yield member.name, content.read(min(member.size, most + 1))


def unzipped(data: bytes, name: str) -> bytes:
    """The content of a file that gzip compressed."""
    most = _most(len(data))
    content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    if len(content) > most:
        raise _refused(name, most)
    return content


class _Archive(tarfile.TarFile):
    """An archive whose every byte is read by way of `_Limited`: headers have lengths, too."""

    def __init__(self, name: Any, mode: Any = "r", fileobj: Any = None, **options: Any) -> None:
        file = _Limited(fileobj or open(name, "rb"), os.fspath(name))  # noqa: SIM115
        try:
            super().__init__(name, mode, cast(Any, file), **options)
        except BaseException:
            file.close()
            raise
        self._extfileobj = False  # so that `close` closes the file


class _Limited:
    """A file that is read forwards, up to a limit that its length on disk sets.

    A forged length can be negative. It would lead a reader back to the same header for ever.
    """

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name
        self._most = self._left = _most(os.stat(name).st_size)

    def read(self, size: int) -> bytes:
        self._forward(size)
        data: bytes = self._file.read(size)
        return data

    def seek(self, place: int) -> int:
        # `tarfile` looks at the last byte of a member again.
        self._forward(place - self._file.tell() + 1)
        return int(self._file.seek(place))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()

    def _forward(self, n_bytes: int) -> None:
        if n_bytes < 0:
            raise tarfile.ReadError("a member of negative length")
        self._left -= n_bytes
        if self._left < 0:
            raise _refused(self._name, self._most)


def _most(n_bytes: int) -> int:
    return _ALWAYS + _RATIO * n_bytes


def _refused(name: str, most: int) -> UsageError:
    return UsageError(
        f"{name} unpacks to more than {most >> 20} MiB, {_RATIO} times its length and "
        f"{_ALWAYS >> 20} MiB; unpack it yourself if it is no bomb"
    )
