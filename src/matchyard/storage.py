"""The files of one version of a saved index.

    music.index/
      CURRENT                     one line: the version that readers take
      versions/0001/manifest.json format, settings, and size and SHA-256 of every file
                    vocabulary.arrow  vocabulary.slots.npy      names, counts; the table over them,
                    vocabulary/FIELD.*                          or a file of names or an array each
                    routes.npy                                  which shard has whose rarest name
                    shards/0000/FIELD.npy                       one file per array of a Table
                    segments/0001/                              the same again for what was appended
                    keys.arrow  keys.slots.npy                  only where keys are strings

How versions are written beside each other and published is in `matchyard.versions`. Nothing is ever
pickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import StorageError
from matchyard.kernels.names import Names, freeze

FORMAT = 2  # raised whenever the layout changes; a reader refuses what it does not know


class File(NamedTuple):
    """One file of a version, as the manifest lists it."""

    name: str  # path below the version's folder
    size_bytes: int
    sha256: str


class SavedSegment(NamedTuple):
    """Tables over one vocabulary, mapped from disk."""

    vocabulary: Any  # names, or names and arrays by field: see `restored`
    tables: list[dict[str, NDArray[Any]]]
    routes: NDArray[np.int32] | None  # see `matchyard.shards.cut`


class Saved(NamedTuple):
    """An opened version: settings, and arrays mapped from disk."""

    manifest: dict[str, Any]
    key_names: Names | None
    segments: list[SavedSegment]


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


def segment_folder(segment: int) -> str:
    """Where a segment lies below its version, with a slash at the end; the first lies at the top."""
    return f"segments/{segment:04}/" if segment else ""


def shard_folder(number: int, segment: int = 0) -> str:
    """Where a shard of a segment lies below its version."""
    return f"{segment_folder(segment)}shards/{number:04}/"


def write_table(
    folder: Path, number: int, table: Any, segment: int = 0, below: str = ""
) -> list[File]:
    """Write one shard: a NamedTuple of arrays."""
    return [
        write_array(folder, f"{below}{shard_folder(number, segment)}{field}", array)
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


def write_vocabulary(folder: Path, name: str, vocabulary: Any) -> list[File]:
    """Write names, or a NamedTuple of names and arrays field by field."""
    if isinstance(vocabulary, Names):
        return write_names(folder, name, vocabulary)
    files = []
    for field, value in vocabulary._asdict().items():
        if isinstance(value, Names):
            files += write_names(folder, f"{name}/{field}", value)
        else:
            files.append(write_array(folder, f"{name}/{field}", value))
    return files


def describe(
    engine: str, algorithm: str, reading: Any, options: Any, segments: Sequence[int]
) -> dict[str, Any]:
    """What the manifest says besides the files; `segments` has the number of shards of each."""
    return {
        "engine": engine,
        "algorithm": algorithm,
        "options": {**reading._asdict(), **options._asdict()},
        "segments": list(segments),
    }


def write_manifest(folder: Path, settings: Mapping[str, Any], files: Sequence[File]) -> None:
    """Write what makes the files a version."""
    manifest = {"format": FORMAT, **settings, "files": [list(file) for file in files]}
    manifest["sha256"] = _self_hash(manifest)
    file = _Hashed(folder / "manifest.json")
    file.write(json.dumps(manifest, indent=1).encode())
    file.finish("manifest.json")


def _self_hash(manifest: Mapping[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of one version."""
    try:
        data = (folder / "manifest.json").read_bytes()
    except OSError as error:
        raise StorageError(f"{folder}/manifest.json cannot be read: {error}") from None
    return parse_manifest(data, str(folder))


def parse_manifest(data: bytes, folder: str) -> dict[str, Any]:
    """The checked manifest of a version that lies in `folder`."""
    try:
        manifest = json.loads(data)
    except ValueError as error:
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
    if "segments" not in manifest:  # format 1 had one
        manifest["segments"] = [manifest.get("shards", 0)]
    return manifest


def needed(manifest: Mapping[str, Any], shards: Collection[int] | None = None) -> list[File]:
    """The files of a version, or those that some of its shards need; shards of all segments are
    numbered one after the other."""
    files = [File(*entry) for entry in manifest["files"]]
    if shards is None:
        return files
    wanted = {
        shard_folder(number, segment)
        for first, segment, number in _numbered(manifest)
        if first + number in shards
    }
    return [
        file
        for file in files
        if "shards/" not in file.name or file.name[: file.name.rindex("/") + 1] in wanted
    ]


def _numbered(manifest: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Per shard: how many there are before its segment, its segment, and its number there."""
    counts = manifest["segments"]
    return [
        (sum(counts[:segment]), segment, number)
        for segment, n_shards in enumerate(counts)
        for number in range(n_shards)
    ]


def load_version(
    folder: Path, verify: bool = False, shards: Collection[int] | None = None
) -> Saved:
    """Map a version, or some of its shards; `verify` compares every file's SHA-256."""
    manifest = read_manifest(folder)
    files = needed(manifest, shards)
    for file in files:
        _check(folder / file.name, file, verify)
    names = {file.name for file in files}
    tables: list[list[dict[str, NDArray[Any]]]] = [[] for _ in manifest["segments"]]
    for first, segment, number in _numbered(manifest):
        if shards is not None and first + number not in shards:
            continue
        prefix = shard_folder(number, segment)
        fields = [name for name in names if name.startswith(prefix)]
        tables[segment].append(
            {name[len(prefix) : -len(".npy")]: map_array(folder / name) for name in fields}
        )
    segments = []
    for segment, mapped in enumerate(tables):
        place = segment_folder(segment)
        routes = map_array(folder / f"{place}routes.npy") if f"{place}routes.npy" in names else None
        vocabulary = map_vocabulary(folder, f"{place}vocabulary", names)
        segments.append(SavedSegment(vocabulary, mapped, routes))
    key_names = map_names(folder, "keys") if "keys.arrow" in names else None
    return Saved(manifest, key_names, segments)


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


def map_array(path: Path) -> NDArray[Any]:
    """Map one array from disk."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError, SyntaxError, TokenError) as error:
        raise StorageError(f"{path} is not an array file: {error}") from None


def map_names(folder: Path, name: str) -> Names:
    """Map what `write_names` wrote."""
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
    return freeze(Names(map_array(folder / f"{name}.slots.npy"), start, data, uses))


def map_vocabulary(folder: Path, name: str, files: Collection[str]) -> Any:
    """Map what `write_vocabulary` wrote: names, or names and arrays by field."""
    prefix = f"{name}/"
    below = sorted(file for file in files if file.startswith(prefix))
    if not below:
        return map_names(folder, name)
    ends = {file: file[len(prefix) :] for file in below}
    named = {end.removesuffix(".arrow") for end in ends.values() if end.endswith(".arrow")}
    arrays = {end.removesuffix(".npy") for end in ends.values() if end.endswith(".npy")}
    arrays -= {f"{field}.slots" for field in named}
    return {
        **{field: map_names(folder, prefix + field) for field in named},
        **{field: map_array(folder / f"{prefix}{field}.npy") for field in arrays},
    }


def restored(vocabulary: Any, kind: type[Any]) -> Any:
    """A mapped vocabulary as the engine's type."""
    if isinstance(vocabulary, kind):
        return vocabulary
    if not isinstance(vocabulary, dict) or set(vocabulary) != set(kind._fields):
        raise StorageError(f"its vocabulary has not the fields {', '.join(kind._fields)}")
    return kind(**vocabulary)
