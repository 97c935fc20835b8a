"""An index in an object store or on HDFS, through `pyarrow.fs` or fsspec.

Object stores have no locks, so only one writer may work at a time: `publish` refuses a version if another one
was published meanwhile. `cache` keeps the files that a machine has fetched.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pyarrow.fs import FileSelector, FileType, PyFileSystem

from matchyard.errors import ConflictError, StorageError
from matchyard.storage import MANIFEST_BYTES, File, is_version, parse_manifest
from matchyard.storage.file_places import file_system, path_text, remove_abandoned

CURRENT_BYTES = 64  # a longer file CURRENT is damaged
NO_VERSION = "0"  # in the name of an unfinished version, where others have the version before it
_CLAIM_S = 3600.0  # for moving the files of a version, and how long a killed writer is in the way
_ABANDONED_S = 86_400.0  # files of a version that was not finished, without writes for so long


class Remote:
    """A folder at an address such as `s3://bucket/music.index`, possibly with a query string."""

    def __init__(self, address: Any) -> None:
        self.address = path_text(address)
        self._files, self._root = file_system(self.address)

    def below(self, name: str) -> str:
        """The address of a file or folder below this folder."""
        path, mark, query = self.address.partition("?")
        return f"{path.rstrip('/')}/{name}{mark}{query}"

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    # ---------------------------------------------------------------- files

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file, at most `most`; FileNotFoundError if the file does not exist."""
        with self._files.open_input_stream(self._at(name)) as source:
            data: bytes = source.read(most + 1)
        if len(data) > most:
            raise StorageError(f"{self.below(name)} has more than {most} bytes: it is damaged")
        return data

    def has(self, name: str) -> bool:
        """True if there is such a file."""
        return bool(self._files.get_file_info(self._at(name)).type == FileType.File)

    def written(self, name: str) -> float | None:
        """The second at which a file was written, if the store says it."""
        seconds: float | None = self._files.get_file_info(self._at(name)).mtime_ns
        return None if seconds is None else seconds / 1e9

    def content(self, name: str, start: int, n_bytes: int) -> Any:
        """So many bytes of a file, from one on."""
        with self._files.open_input_file(self._at(name)) as source:
            source.seek(start)
            return source.read_buffer(n_bytes)

    def write(self, name: str, data: bytes) -> None:
        """Write one file, completely or not at all."""
        if "/" in name:
            self._files.create_dir(self._at(str(PurePosixPath(name).parent)), recursive=True)
        with self._files.open_output_stream(self._at(name)) as target:
            target.write(data)

    def put_all(self, folder: Path) -> None:
        """Upload every file below a folder, under its own name."""
        for file in [entry for entry in folder.rglob("*") if entry.is_file()]:
            name = file.relative_to(folder).as_posix()
            self._files.create_dir(self._at(str(PurePosixPath(name).parent)), recursive=True)
            with file.open("rb") as source, self._files.open_output_stream(self._at(name)) as to:
                shutil.copyfileobj(source, to, 1 << 22)

    def names(self, name: str = "") -> list[str]:
        """The names of all files below a folder, also those that others have just written."""
        if isinstance(self._files, PyFileSystem):
            self._files.handler.fs.invalidate_cache()
        selector = FileSelector(self._at(name), allow_not_found=True, recursive=True)
        paths = [
            info.path for info in self._files.get_file_info(selector) if info.type == FileType.File
        ]
        return [path[path.index(self._root) + len(self._root) + 1 :] for path in paths]

    def move_all(self, names: Sequence[tuple[str, str]]) -> None:
        """Move files, given as pairs (old name, new name)."""
        for old, new in names:
            self._files.create_dir(self._at(str(PurePosixPath(new).parent)), recursive=True)
            self._files.move(self._at(old), self._at(new))

    def remove(self, name: str) -> None:
        """Remove a folder if it exists."""
        try:
            self._files.delete_dir(self._at(name.rstrip("/")))
        except (FileNotFoundError, OSError):
            return

    def remove_file(self, name: str) -> None:
        """Remove a file if it exists."""
        try:
            self._files.delete_file(self._at(name))
        except OSError:
            return

    # ---------------------------------------------------------------- reading

    def manifest(self, version: str) -> tuple[dict[str, Any], bytes]:
        """The manifest of a version, parsed and as bytes."""
        try:
            data = self.read(f"versions/{version}/manifest.json", MANIFEST_BYTES)
        except FileNotFoundError:
            raise StorageError(
                f"{self.address} has no version {version}: it was removed or never existed; "
                f"the current one is {self._current()}"
            ) from None
        return parse_manifest(data, self.below(f"versions/{version}")), data

    def download(self, file: File, target: Path) -> None:
        """Fetch a file of this folder, and check it on the way."""
        digest, n_bytes = hashlib.sha256(), 0
        descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=".fetching-")
        try:
            with (
                os.fdopen(descriptor, "wb") as file_here,
                self._files.open_input_stream(self._at(file.name)) as source,
            ):
                while n_bytes <= file.size_bytes and (chunk := source.read(1 << 22)):
                    digest.update(chunk)
                    file_here.write(chunk)
                    n_bytes += len(chunk)
            if n_bytes != file.size_bytes:
                raise StorageError(
                    f"{self.below(file.name)} is damaged: its size is not {file.size_bytes} bytes, "
                    "the size in the manifest"
                )
            if digest.hexdigest() != file.sha256:
                raise StorageError(
                    f"{self.below(file.name)} is damaged: its SHA-256 is {digest.hexdigest()}, "
                    f"expected {file.sha256}"
                )
            os.replace(draft, target)
        except FileNotFoundError:
            raise StorageError(f"{self.below(file.name)} is missing") from None
        finally:
            Path(draft).unlink(missing_ok=True)

    # ---------------------------------------------------------------- writing

    @contextmanager
    def new_version(self) -> Iterator[str]:
        """The address of a new folder for the next version; it is removed at the end."""
        draft = f"versions/.writing-{self._current()}-{uuid.uuid4().hex[:12]}"
        try:
            yield self.below(draft)
        finally:
            self.remove(draft)

    def copy_all(self, version: str, folder: str, files: Sequence[File]) -> None:
        """Copy files of a version into an unpublished one, inside the store."""
        target = Remote(folder)
        for file in files:
            self._files.create_dir(target._at(str(PurePosixPath(file.name).parent)), recursive=True)
            self._files.copy_file(
                self._at(f"versions/{version}/{file.name}"), target._at(file.name)
            )

    def publish(self, folder: str) -> str:
        """Make a written folder the current version; returns its number."""
        name = folder[len(self.below("").partition("?")[0]) :].partition("?")[0]
        base = name.rpartition("/")[2].split("-")[1]
        with self._claimed():
            current = self._current()
            if base != current:
                raise overtaken(self.address, base, current)
            number = int(current)
            for left in [old for old in self.versions() if int(old) > number]:  # of a killed writer
                self.remove(f"versions/{left}")
            version = f"{number + 1:04}"
            written = [(old, f"versions/{version}{old[len(name) :]}") for old in self.names(name)]
            self.move_all(written)
            self.write("CURRENT", f"{version}\n".encode())
        remove_abandoned(self.below("versions/any"), ".writing-", _ABANDONED_S)
        return version

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Publish alone, or not at all: of two writers at a time, one or both are refused.

        A writer claims the index, then looks for other claims, then reads CURRENT. A writer that does not see
        the claim of another one, because that has published and taken its claim back, sees its version.
        """
        claim = f"claims/{uuid.uuid4().hex[:16]}"
        self.write(claim, f"{time.time() + _CLAIM_S:.0f}\n".encode())
        try:
            for other in self.names("claims"):
                if other == claim:
                    continue
                with suppress(FileNotFoundError):  # it is done
                    ends = _seconds(self.read(other, CURRENT_BYTES))
                    if ends >= time.time():
                        raise ConflictError(
                            f"another writer is publishing to {self.address}: build again (if that "
                            f"writer was killed, from {time.ctime(ends)} on, or remove {other})"
                        )
                    self.remove_file(other)
            yield
        finally:
            self.remove_file(claim)

    def versions(self) -> list[str]:
        """The numbers of all versions, oldest first."""
        folders = {file.split("/")[1] for file in self.names("versions")}
        return sorted((name for name in folders if is_version(name)), key=int)

    def _current(self) -> str:
        try:
            version = self.read("CURRENT", CURRENT_BYTES).decode(errors="replace").strip()
        except FileNotFoundError:
            return NO_VERSION
        if not is_version(version):
            raise StorageError(f"{self.below('CURRENT')} is damaged: it says {version!r}")
        return version


def overtaken(path: Any, base: str, current: str) -> ConflictError:
    """The error of a writer that began at a version which is no longer the current one."""
    return ConflictError(
        f"{path} was at version {base} when this one was begun and is at {current} now: another writer "
        "was faster, build again"
    )


def _seconds(data: bytes) -> float:
    try:
        return float(data)
    except ValueError:
        return 0.0
