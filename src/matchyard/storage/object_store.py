"""An index in an object store or on HDFS, through `pyarrow.fs` or fsspec.

Files are fetched once per machine into a cache that names them by their SHA-256, so that a new
version costs what has changed in it, and are memory-mapped from there. One writer at a time:
object stores have no locks; a version that another writer has overtaken is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from pyarrow import ArrowException
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from matchyard.errors import StorageError, UsageError
from matchyard.storage import MANIFEST_BYTES, File, is_version, needed, parse_manifest

try:
    import fcntl
except ImportError:  # not a POSIX system: a file may be fetched twice there
    fcntl = None  # type: ignore[assignment]

CURRENT_BYTES = 64  # a longer file CURRENT is none
_CACHED_VERSIONS = 2  # of one index, on one machine
_CACHED_DRAFTS = 16  # vocabularies and routes of versions that are being made


def is_remote(path: Any) -> bool:
    """Does the path have a scheme other than `file`?"""
    scheme, found, _ = path_text(path).partition("://")
    return bool(found) and scheme != "file"


def local_path(path: Any) -> Path:
    """A path of this machine, also when written as `file://…`."""
    return Path(path_text(path).removeprefix("file://"))


def path_text(path: Any) -> str:
    """A path or address as a string that a file system can take."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise UsageError(f"not a path: {path!r}; expected a string or a Path, e.g. 'music.index'")
    try:
        is_name = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise UsageError(f"not a path: {text!r} has a character that no file name can have")
    return text


def cache_folder() -> Path:
    """Where fetched files are kept: MATCHYARD_CACHE, or the user's cache folder."""
    named = os.environ.get("MATCHYARD_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matchyard"


class Remote:
    """A folder at an address such as `s3://bucket/music.index`; a query string stays with it."""

    def __init__(self, address: Any) -> None:
        self.address = path_text(address)
        self._files, self._root = _file_system(self.address)

    def below(self, name: str) -> str:
        """The address of something below this folder."""
        place, mark, query = self.address.partition("?")
        return f"{place.rstrip('/')}/{name}{mark}{query}"

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    # ---------------------------------------------------------------- files

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file that has at most so many; FileNotFoundError where there is none."""
        with self._files.open_input_stream(self._at(name)) as source:
            data: bytes = source.read(most + 1)
        if len(data) > most:
            raise StorageError(f"{self.below(name)} has more than {most} bytes: it is damaged")
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put one file, whole or not at all."""
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
        """Every file below a folder."""
        selector = FileSelector(self._at(name), allow_not_found=True, recursive=True)
        found = [
            info.path for info in self._files.get_file_info(selector) if info.type == FileType.File
        ]
        return [path[path.index(self._root) + len(self._root) + 1 :] for path in found]

    def move_all(self, names: Sequence[tuple[str, str]]) -> None:
        """Move files: their old names and their new ones."""
        for old, new in names:
            self._files.create_dir(self._at(str(PurePosixPath(new).parent)), recursive=True)
            self._files.move(self._at(old), self._at(new))

    def remove(self, name: str) -> None:
        """Remove a folder, if it is there."""
        try:
            self._files.delete_dir(self._at(name.rstrip("/")))
        except (FileNotFoundError, OSError):
            return

    # ---------------------------------------------------------------- reading

    def manifest(self, version: str) -> tuple[dict[str, Any], bytes]:
        """What a version says of itself, read and as it is written."""
        try:
            data = self.read(f"versions/{version}/manifest.json", MANIFEST_BYTES)
        except FileNotFoundError:
            raise StorageError(f"{self.address} has no version {version}") from None
        return parse_manifest(data, self.below(f"versions/{version}")), data

    def fetch(self, version: str, shards: Collection[int] | None = None) -> Path:
        """A folder of this machine with a version, as far as some shards need it."""
        manifest, data = self.manifest(version)
        folder = self._cached(version, data)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "manifest.json").exists():
            _place(folder / "manifest.json", data)
        inside = Remote(self.below(f"versions/{version}"))
        inside.fetch_files(needed(manifest, shards), folder)
        os.utime(folder)
        _forget(folder.parent, _CACHED_VERSIONS)
        return folder

    def forget(self, version: str) -> None:
        """Remove a version from the cache, with its files: one of them may be damaged."""
        manifest, data = self.manifest(version)
        shutil.rmtree(self._cached(version, data), ignore_errors=True)
        for file in manifest["files"]:
            (cache_folder() / "files" / file.sha256).unlink(missing_ok=True)

    def _cached(self, version: str, data: bytes) -> Path:
        """Where the cache has a version. By its content too: an index may have been removed and made
        anew, from version 1 on."""
        name = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        of_content = hashlib.sha256(data).hexdigest()[:16]
        return cache_folder() / "indexes" / name / f"{version}-{of_content}"

    def fetch_files(self, files: Sequence[File], folder: Path | None = None) -> Path:
        """Link some files of this folder, fetched or found in the cache, into a local one."""
        if folder is None:
            key = "".join(file.sha256 for file in files)
            folder = cache_folder() / "drafts" / hashlib.sha256(key.encode()).hexdigest()[:16]
            folder.mkdir(parents=True, exist_ok=True)
            _forget(folder.parent, _CACHED_DRAFTS)
        for file in files:
            target = folder / file.name
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            cached = cache_folder() / "files" / file.sha256
            while not target.exists():
                with _locked(cached):  # the other workers of this machine wait, and find it then
                    if not cached.exists():
                        self._download(file, cached)
                _link(cached, target)
        return folder

    def _download(self, file: File, cached: Path) -> None:
        digest, n_bytes = hashlib.sha256(), 0
        descriptor, draft = tempfile.mkstemp(dir=cached.parent, prefix=".fetching-")
        try:
            with (
                os.fdopen(descriptor, "wb") as target,
                self._files.open_input_stream(self._at(file.name)) as source,
            ):
                while n_bytes <= file.size_bytes and (chunk := source.read(1 << 22)):
                    digest.update(chunk)
                    target.write(chunk)
                    n_bytes += len(chunk)
            if n_bytes != file.size_bytes:
                raise StorageError(
                    f"{self.below(file.name)} is damaged: it has not the {file.size_bytes} bytes "
                    "that its manifest says"
                )
            if digest.hexdigest() != file.sha256:
                raise StorageError(
                    f"{self.below(file.name)} is damaged: its SHA-256 is {digest.hexdigest()}, "
                    f"expected {file.sha256}"
                )
            os.replace(draft, cached)
        except FileNotFoundError:
            raise StorageError(f"{self.below(file.name)} is missing") from None
        finally:
            Path(draft).unlink(missing_ok=True)

    # ---------------------------------------------------------------- writing

    @contextmanager
    def new_version(self) -> Iterator[str]:
        """The address of a folder to write the next version into."""
        draft = f"versions/.writing-{self._current()}-{uuid.uuid4().hex[:12]}"
        try:
            yield self.below(draft)
        finally:
            self.remove(draft)

    def copy_all(self, version: str, folder: str, files: Sequence[File]) -> None:
        """Copy files of a version into one that is being made, inside the store."""
        target = Remote(folder)
        for file in files:
            self._files.create_dir(target._at(str(PurePosixPath(file.name).parent)), recursive=True)
            self._files.copy_file(
                self._at(f"versions/{version}/{file.name}"), target._at(file.name)
            )

    def publish(self, folder: str, keep: int) -> str:
        """Make a written folder the current version; returns its number."""
        name = folder[len(self.below("").partition("?")[0]) :].partition("?")[0]
        base, current = name.rpartition("/")[2].split("-")[1], self._current()
        if base != current:
            raise StorageError(
                f"{self.address} was at version {base} when this one was begun and is at {current} "
                "now: another writer was faster, build again"
            )
        number = int(current)
        found = {place.split("/")[1] for place in self.names("versions")}
        numbers = sorted(int(version) for version in found if is_version(version))
        for left in [old for old in numbers if old > number]:  # by a writer that was killed
            self.remove(f"versions/{left:04}")
        version = f"{number + 1:04}"
        written = [(old, f"versions/{version}{old[len(name) :]}") for old in self.names(name)]
        self.move_all(written)
        self.write("CURRENT", f"{version}\n".encode())
        for stale in [old for old in numbers if old <= number][: -(keep - 1)]:
            self.remove(f"versions/{stale:04}")
        return version

    def _current(self) -> str:
        try:
            version = self.read("CURRENT", CURRENT_BYTES).decode(errors="replace").strip()
        except FileNotFoundError:
            return "0"
        if not is_version(version):
            raise StorageError(f"{self.below('CURRENT')} is damaged: it says {version!r}")
        return version


@contextmanager
def open_stream(path: str) -> Iterator[Any]:
    """A file at a path or address to be read from its start, decompressed as its ending says."""
    try:
        if path.startswith("file:"):  # Spark writes one slash after it
            files, place = LocalFileSystem(), f"/{path.removeprefix('file:').lstrip('/')}"
        elif not is_remote(path):
            files, place = LocalFileSystem(), path
        else:  # Spark's schemes for S3
            files, place = _file_system(re.sub("^s3[an]://", "s3://", path))
        with files.open_input_stream(place) as stream:
            yield stream
    except (OSError, ArrowException) as error:
        raise StorageError(f"{path} cannot be read: {error}") from None


def _file_system(address: str) -> tuple[Any, str]:
    try:
        files, root = FileSystem.from_uri(address)
        return files, root.rstrip("/")
    except ArrowException as error:
        reason = error
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise StorageError(
            f"{address}: {reason}; other stores are reached through fsspec, which is not installed"
        ) from None
    try:
        files, root = url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise StorageError(f"{address} cannot be reached: {error}") from None
    return PyFileSystem(FSSpecHandler(files)), root.rstrip("/")


def _place(path: Path, data: bytes) -> None:
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(draft, path)


def _link(cached: Path, target: Path) -> None:
    try:
        os.link(cached, target)
    except (FileExistsError, FileNotFoundError):  # another process was faster, or tidied up
        return
    except OSError:  # no links there: copied whole or not at all
        draft = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}")
        shutil.copyfile(cached, draft)
        os.replace(draft, target)


def open_lock(path: Path) -> Any:
    """A file to lock, made where there is none. A link there is not followed, and no pipe is waited for."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise StorageError(f"{path} is no regular file")
    return file


@contextmanager
def _locked(cached: Path) -> Iterator[None]:
    """One process at a time for a file of the cache."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(cached.parent / f".lock-{cached.name[:2]}") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget(folders: Path, n_kept: int) -> None:
    """Remove folders that were used least recently from the cache, and files that none has any more.
    What is mapped stays readable."""
    try:
        found = sorted(folders.iterdir(), key=lambda entry: entry.stat().st_mtime)
    except FileNotFoundError:  # another process tidies up
        return
    stale = found[:-n_kept]
    for folder in stale:
        shutil.rmtree(folder, ignore_errors=True)
    for file in (cache_folder() / "files").iterdir() if stale else ():
        if not file.name.startswith("."):
            try:
                if file.stat().st_nlink == 1:
                    file.unlink()
            except FileNotFoundError:  # another process was faster
                continue
