"""A saved index: immutable versions in a folder, and one file that names the current one.

    music.index/
      CURRENT                     one line: the version that readers take
      versions/0001/manifest.json format, settings, and size and SHA-256 of every file
                    vocabulary.arrow  vocabulary.slots.npy      names, counts; the table over them
                    keys.arrow  keys.slots.npy                  only where keys are strings
                    shards/0000/FIELD.npy                       one file per array of a Table

A version is written beside the others, made durable, and published by replacing CURRENT, so that
a reader sees the old version or the new one and never a half. Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import StorageError
from matchyard.kernels.names import Names, freeze

FORMAT = 1  # raised whenever the layout changes; a reader refuses what it does not know
_KEEP = 2  # versions that stay on disk: the current one, and its predecessor for late readers

try:
    import fcntl
except ImportError:  # not a POSIX system: writers are not kept apart there
    fcntl = None  # type: ignore[assignment]


class File(NamedTuple):
    """One file of a version, as the manifest lists it."""

    name: str  # path below the version's folder
    size_bytes: int
    sha256: str


class Saved(NamedTuple):
    """An opened version: settings, and arrays mapped from disk."""

    manifest: dict[str, Any]
    vocabulary: Names
    key_names: Names | None
    tables: list[dict[str, NDArray[Any]]]


class _Hashed(io.RawIOBase):
    """A file that remembers the hash of what is written to it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self._file.write(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size_bytes

    def finish(self, name: str) -> File:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return File(name, self.size_bytes, self._hash.hexdigest())


def write_array(folder: Path, name: str, array: NDArray[Any]) -> File:
    """Write one array as NAME.npy."""
    file = _Hashed(folder / f"{name}.npy")
    array = np.ascontiguousarray(array)
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header)
    if array.size:
        file.write(array)
    return file.finish(f"{name}.npy")


def write_table(folder: Path, number: int, table: Any) -> list[File]:
    """Write one shard: a NamedTuple of arrays."""
    return [
        write_array(folder, f"shards/{number:04}/{field}", array)
        for field, array in table._asdict().items()
    ]


def write_names(folder: Path, name: str, names: Names) -> list[File]:
    """Write names and their counts (run-end encoded) as an Arrow file, and the slots as an array."""
    columns = {"name": names.to_arrow()}
    if len(names.uses):
        ends, counts = pa.array(names.uses[:, 0]), pa.array(names.uses[:, 1])
        columns["count"] = pa.RunEndEncodedArray.from_arrays(ends, counts)
    batch = pa.record_batch(columns)
    file = _Hashed(folder / f"{name}.arrow")
    with pa.ipc.new_file(pa.PythonFile(file, "w"), batch.schema) as writer:
        writer.write_batch(batch)
    return [file.finish(f"{name}.arrow"), write_array(folder, f"{name}.slots", names.slots)]


@contextmanager
def new_version(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write the next version into; call `publish` before leaving the block.

    Holds the index's lock, so that writers come one after the other.
    """
    try:
        with _locked_version(Path(path)) as folder:
            yield folder
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error


@contextmanager
def _locked_version(root: Path) -> Iterator[Path]:
    if root.exists() and not (root / "CURRENT").exists() and not _is_unfinished(root):
        raise StorageError(f"{root} exists and is not a Matchyard index; choose another path")
    versions = root / "versions"
    versions.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in [*versions.glob(".writing-*"), *_unpublished(root)]:  # left by a killed writer
            shutil.rmtree(stale, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=".writing-", dir=versions))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _is_unfinished(root: Path) -> bool:
    """Is this folder empty, or what a killed first save leaves behind?"""
    left = {"versions", ".lock", "CURRENT.new"}
    return root.is_dir() and {entry.name for entry in root.iterdir()} <= left


def _unpublished(root: Path) -> list[Path]:
    """Versions that were renamed into place but never became the current one."""
    current = int(current_version(root)) if (root / "CURRENT").exists() else 0
    return [path for path in _versions(root) if int(path.name) > current]


def _versions(root: Path) -> list[Path]:
    return sorted(path for path in (root / "versions").iterdir() if path.name.isdigit())


def publish(
    path: str | os.PathLike[str], folder: Path, settings: Mapping[str, Any], files: Sequence[File]
) -> str:
    """Make a written folder the current version; returns its number."""
    root = Path(path)
    manifest = {"format": FORMAT, **settings, "files": [list(file) for file in files]}
    manifest["sha256"] = _self_hash(manifest)
    file = _Hashed(folder / "manifest.json")
    file.write(json.dumps(manifest, indent=1).encode())
    file.finish("manifest.json")
    for below in [folder, *(entry for entry in folder.rglob("*") if entry.is_dir())]:
        _sync(below)
    folder.chmod(0o755)
    older = _versions(root)
    version = f"{max((int(path.name) for path in older), default=0) + 1:04}"
    folder.rename(root / "versions" / version)
    _sync(root / "versions")
    line = _Hashed(root / "CURRENT.new")
    line.write(f"{version}\n".encode())
    line.finish("CURRENT")
    os.replace(root / "CURRENT.new", root / "CURRENT")
    _sync(root)
    for stale in sorted(older, key=lambda stale: int(stale.name))[: -(_KEEP - 1)]:
        shutil.rmtree(stale, ignore_errors=True)
    return version


def describe(
    engine: str, algorithm: str, reading: Any, options: Any, n_shards: int
) -> dict[str, Any]:
    """What the manifest says besides the files."""
    return {
        "engine": engine,
        "algorithm": algorithm,
        "options": {**reading._asdict(), **options._asdict()},
        "shards": n_shards,
    }


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _self_hash(manifest: Mapping[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def current_version(path: str | os.PathLike[str]) -> str:
    """The number of the version that readers take."""
    root = Path(path)
    try:
        line = (root / "CURRENT").read_bytes()
    except FileNotFoundError:
        raise StorageError(f"{root} is not a Matchyard index: it has no file CURRENT") from None
    except OSError as error:
        raise StorageError(f"{root} cannot be read: {error}") from None
    version = line.strip()
    if not version.isdigit() or line != version + b"\n":
        raise StorageError(
            f"{root}/CURRENT is damaged: it says {line[:40]!r}, expected e.g. '0001'"
        )
    return version.decode()


def load(path: str | os.PathLike[str], verify: bool = False) -> Saved:
    """Map the current version; `verify` reads every file and compares its SHA-256."""
    while True:
        version = current_version(path)
        try:
            return _load_version(Path(path) / "versions" / version, verify)
        except StorageError:
            # A writer may have published and tidied up since CURRENT was read.
            if current_version(path) == version:
                raise


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of one version."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError) as error:
        raise StorageError(f"{folder}/manifest.json cannot be read: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise StorageError(f"{folder}/manifest.json is not a Matchyard manifest")
    if manifest["format"] > FORMAT:
        raise StorageError(
            f"{folder} has format {manifest['format']}; this version of Matchyard reads up to "
            f"{FORMAT}: install a newer one"
        )
    if manifest.get("sha256") != _self_hash(manifest):
        raise StorageError(f"{folder}/manifest.json is damaged: its checksum does not fit")
    return manifest


def _load_version(folder: Path, verify: bool) -> Saved:
    manifest = read_manifest(folder)
    files = [File(*entry) for entry in manifest["files"]]
    for file in files:
        _check(folder / file.name, file, verify)
    names = {file.name for file in files}
    tables: list[dict[str, NDArray[Any]]] = []
    for number in range(manifest["shards"]):
        prefix = f"shards/{number:04}/"
        fields = [name for name in names if name.startswith(prefix)]
        tables.append(
            {name[len(prefix) : -len(".npy")]: _map_array(folder / name) for name in fields}
        )
    key_names = _map_names(folder, "keys") if "keys.arrow" in names else None
    return Saved(manifest, _map_names(folder, "vocabulary"), key_names, tables)


def _check(path: Path, file: File, verify: bool) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise StorageError(f"{path} is missing: {error}") from None
    if size != file.size_bytes:
        raise StorageError(f"{path} has {size} bytes, expected {file.size_bytes}: it is damaged")
    if not verify:
        return
    try:
        with path.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:  # also when a writer has removed this version since
        raise StorageError(f"{path} cannot be read: {error}") from None
    if digest != file.sha256:
        raise StorageError(f"{path} is damaged: its SHA-256 is {digest}, expected {file.sha256}")


def _map_array(path: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise StorageError(f"{path} is not an array file: {error}") from None


def _map_names(folder: Path, name: str) -> Names:
    path = folder / f"{name}.arrow"
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        words = table["name"].chunk(0)
        uses = np.empty((0, 2), np.int64)
        if "count" in table.column_names:
            runs = table["count"].chunk(0)
            uses = np.stack([runs.run_ends.to_numpy(), runs.values.to_numpy()], axis=1)
        width: type[np.signedinteger[Any]] = (
            np.int64 if pa.types.is_large_string(words.type) else np.int32
        )
        _, offsets, text = words.buffers()
    except (pa.ArrowInvalid, OSError, KeyError, IndexError, AttributeError) as error:
        raise StorageError(f"{path} is not a file of names: {error}") from None
    start = np.frombuffer(offsets, width)[: len(words) + 1] if offsets else np.zeros(1, width)
    data = np.frombuffer(text or b"", np.uint8)
    return freeze(Names(_map_array(folder / f"{name}.slots.npy"), start, data, uses))
