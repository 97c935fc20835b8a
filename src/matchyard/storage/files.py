"""Write and read the files of one version of a saved index.

music.index/
  CURRENT                     one line: the version that readers take
  versions/0001/manifest.json format, settings, and size and checksums of every file
                vocabulary.arrow  vocabulary.slots.npy      names with counts, and their hash table,
                vocabulary/FIELD.*                          or one file of names or array per field
                routes.npy                                  the shards of each rarest name
                shards/0000/FIELD.npy                       one file per array of a Table
                segments/0001/                              the same files for an appended segment
                keys.arrow  keys.slots.npy                  only for string keys
                NAME.blocks                                 beside each large file: see `blocks`
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import StorageError
from matchyard.kernels.strings import Names, freeze
from matchyard.storage.blocks import BLOCKS, Blocks, fast_checksum, is_large, sums_of
from matchyard.storage.content import Contents, unreadable
from matchyard.storage.manifest import (
    MANIFEST_BYTES,
    File,
    compose,
    needed,
    numbered,
    parse_manifest,
    segment_folder,
    shard_folder,
)

AUTO_BYTES = 1 << 30  # `verify="auto"` checks files of this sum at opening, larger ones in blocks
Verify = bool | Literal["auto", "lazy"]
# The header of an array file as NumPy writes it, padded to a multiple of 64 bytes. NumPy itself
# parses the header as a Python literal, which takes most of the time to open a small index.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<kind>[|<](?:b1|[iu][1248]|f[48]))', "
    rb"'fortran_order': False, 'shape': \((?P<shape>|[0-9]{1,18},|[0-9]{1,18}(?:, [0-9]{1,18}){1,7})\), \} *\n",
    re.DOTALL,
)
_LONGEST_HEADER = 1024
_LATER = re.compile(r"keys\.|(segments/[0-9]+/)?shards/")  # files that an event needs a part of
_ALIGNMENT = 64


class SavedSegment(NamedTuple):
    """Tables over one vocabulary, read or mapped from disk."""

    vocabulary: Any  # names, or names and arrays by field: see `restored`
    tables: list[dict[str, NDArray[Any]]]
    routes: NDArray[np.int32] | None  # see `matchyard.shards.cut`
    unchecked: list[dict[str, Blocks]]  # of each table: arrays to check before their first use


class Saved(NamedTuple):
    """An opened version: settings, and arrays read or mapped from disk."""

    folder: Path
    manifest: dict[str, Any]
    key_names: Names | None
    segments: list[SavedSegment]
    is_thorough: bool  # inspect every value, not only shapes and ends
    unchecked: dict[str, Blocks]  # files of key names to check before their first use

    def check(self) -> None:
        """Check all that is not checked yet, for one who reads everything."""
        for some in (self.unchecked, *(one for part in self.segments for one in part.unchecked)):
            for file in some.values():
                file.check()


# -------------------------------------------------------------------- writing


def file_below(folder: Path, name: str) -> Path:
    """The path of a file, whose folders below `folder` are made. `folder` itself has to be there: a task that
    still runs when its build has failed does not bring it back."""
    at = folder
    for part in name.split("/")[:-1]:
        at /= part
        with suppress(FileExistsError):
            at.mkdir()
    return folder / name


class _Hashed(io.RawIOBase):
    """A file to write to, with the size and SHA-256 of its content."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._file = file_below(folder, name).open("wb")
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

    def close(self) -> None:
        self._file.close()
        super().close()

    def finish(self) -> File:
        self._file.flush()
        os.fsync(self._file.fileno())
        fast = fast_checksum(Contents(self._folder).of(self._name, self.size_bytes))
        return File(self._name, self.size_bytes, self._hash.hexdigest(), fast)


def _with_blocks(folder: Path, file: File) -> list[File]:
    """A written file, and beside it, if it is large, the checksums of its blocks."""
    if not is_large(file.size_bytes):
        return [file]
    sums = sums_of(Contents(folder).of(file.name, file.size_bytes))
    with _Hashed(folder, f"{file.name}{BLOCKS}") as beside:
        beside.write(sums)
        return [file, beside.finish()]


def write_array(folder: Path, name: str, array: NDArray[Any]) -> list[File]:
    """Write one array as NAME.npy."""
    array = np.ascontiguousarray(array)
    header = np.lib.format.header_data_from_array_1_0(array)
    with _Hashed(folder, f"{name}.npy") as file:
        np.lib.format.write_array_header_1_0(file, header)
        if array.size:
            file.write(array)
        written = file.finish()
    return _with_blocks(folder, written)


def write_table(
    folder: Path, number: int, table: Any, segment: int = 0, below: str = ""
) -> list[File]:
    """Write one shard: a NamedTuple of arrays."""
    return [
        file
        for field, array in table._asdict().items()
        for file in write_array(folder, f"{below}{shard_folder(number, segment)}{field}", array)
    ]


def write_names(folder: Path, name: str, names: Names) -> list[File]:
    """Write names and their counts (run-end encoded) as an Arrow file, and the slots as an array."""
    columns = {"name": names.to_arrow()}
    if len(names.uses):
        ends, counts = pa.array(names.uses[:, 0]), pa.array(names.uses[:, 1])
        columns["count"] = pa.RunEndEncodedArray.from_arrays(ends, counts)
    batch = pa.record_batch(columns)
    with _Hashed(folder, f"{name}.arrow") as file:
        with pa.ipc.new_file(pa.PythonFile(file, "w"), batch.schema) as writer:
            writer.write_batch(batch)
        written = file.finish()
    return _with_blocks(folder, written) + write_array(folder, f"{name}.slots", names.slots)


def write_vocabulary(folder: Path, name: str, vocabulary: Any) -> list[File]:
    """Write names, or each field of a NamedTuple of names and arrays."""
    if isinstance(vocabulary, Names):
        return write_names(folder, name, vocabulary)
    files = []
    for field, value in vocabulary._asdict().items():
        if isinstance(value, Names):
            files += write_names(folder, f"{name}/{field}", value)
        else:
            files += write_array(folder, f"{name}/{field}", value)
    return files


def write_manifest(folder: Path, settings: Mapping[str, Any], files: Sequence[File]) -> None:
    """Write the manifest of a version."""
    with _Hashed(folder, "manifest.json") as file:
        file.write(compose(settings, files))
        file.finish()


# -------------------------------------------------------------------- reading


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of one version."""
    try:
        data = Contents(folder).read("manifest.json", MANIFEST_BYTES)
    except StorageError:
        raise
    except OSError as error:
        raise unreadable(folder / "manifest.json", error) from None
    return parse_manifest(data, str(folder))


def load_version(
    folder: Path, verify: Verify = "auto", shards: Collection[int] | None = None
) -> Saved:
    """Open a version, or some of its shards. Sizes of files are always compared. `verify="auto"`
    checks fast checksums, of more than AUTO_BYTES in blocks before their first use; `"lazy"` leaves all
    blocks until then; `True` checks the SHA-256 of every file."""
    manifest = read_manifest(folder)
    opened = _Opened(folder, needed(manifest, shards), verify)
    tables: list[list[dict[str, NDArray[Any]]]] = [[] for _ in manifest["segments"]]
    unchecked: list[list[dict[str, Blocks]]] = [[] for _ in manifest["segments"]]
    for first, segment, number in numbered(manifest):
        if shards is None or first + number in shards:
            tables[segment].append(opened.arrays(shard_folder(number, segment)))
            unchecked[segment].append(opened.unchecked_below(shard_folder(number, segment)))
    segments = []
    for segment, shard_tables in enumerate(tables):
        below = segment_folder(segment)
        routes = opened.array(f"{below}routes") if f"{below}routes.npy" in opened.files else None
        vocabulary = opened.vocabulary(f"{below}vocabulary")
        segments.append(SavedSegment(vocabulary, shard_tables, routes, unchecked[segment]))
    key_names = opened.names("keys") if "keys.arrow" in opened.files else None
    keys = opened.unchecked_below("keys.")
    return Saved(folder, manifest, key_names, segments, verify is True, keys)


class _Opened:
    """The checked bytes of some files of a version, and the arrays and names in them."""

    def __init__(self, folder: Path, files: Sequence[File], verify: Verify) -> None:
        self._folder, contents = folder, Contents(folder)
        data = {file.name: contents.of(file.name, file.size_bytes) for file in files}
        self.files = {name: one for name, one in data.items() if not name.endswith(BLOCKS)}
        self._unchecked: dict[str, Blocks] = {}
        n_bytes = sum(file.size_bytes for file in files)
        is_lazy = verify == "lazy" or (verify == "auto" and n_bytes > AUTO_BYTES)
        for file in files if verify else ():
            path, sums = f"{folder}/{file.name}", data.get(file.name + BLOCKS)
            if is_lazy and sums is not None and _LATER.match(file.name):
                self._unchecked[file.name] = Blocks(path, data[file.name], sums)
            else:
                _check(path, data[file.name], file, verify is True)
        for one in self._unchecked.values():  # only now: their checksums are checked, too
            one.check_ends()

    def unchecked_below(self, prefix: str) -> dict[str, Blocks]:
        """The files with a prefix that are to be checked before their first use."""
        return {
            name[len(prefix) :].removesuffix(".npy"): one
            for name, one in self._unchecked.items()
            if name.startswith(prefix)
        }

    def array(self, name: str) -> NDArray[Any]:
        """The array NAME.npy."""
        return as_array(self._find(f"{name}.npy"), f"{self._folder}/{name}.npy")

    def names(self, name: str) -> Names:
        """The names from the files of `write_names`."""
        path = f"{self._folder}/{name}.arrow"
        return as_names(self._find(f"{name}.arrow"), self.array(f"{name}.slots"), path)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """All arrays below a folder, by field."""
        return {
            name[len(prefix) : -len(".npy")]: self.array(name[: -len(".npy")])
            for name in self.files
            if name.startswith(prefix)
        }

    def vocabulary(self, name: str) -> Any:
        """The vocabulary from `write_vocabulary`: names, or names and arrays by field."""
        prefix = f"{name}/"
        fields = {file[len(prefix) :] for file in self.files if file.startswith(prefix)}
        if not fields:
            return self.names(name)
        named = {field.removesuffix(".arrow") for field in fields if field.endswith(".arrow")}
        arrays = {field.removesuffix(".npy") for field in fields if field.endswith(".npy")}
        arrays -= {f"{field}.slots" for field in named}
        return {
            **{field: self.names(prefix + field) for field in named},
            **{field: self.array(prefix + field) for field in arrays},
        }

    def _find(self, name: str) -> NDArray[np.uint8]:
        if name not in self.files:
            raise StorageError(f"{self._folder}/{name} is missing: the manifest does not list it")
        return self.files[name]


def _check(path: str, data: NDArray[np.uint8], file: File, is_thorough: bool) -> None:
    """Compare the fast checksum, or the SHA-256 if `is_thorough` or there is no fast one."""
    if file.xxh64 and not is_thorough:
        kind, checksum, expected = "XXH64", fast_checksum(data), file.xxh64
    else:
        kind, checksum, expected = "SHA-256", hashlib.sha256(data.data).hexdigest(), file.sha256
    if checksum != expected:
        raise StorageError(f"{path} is damaged: its {kind} is {checksum}, expected {expected}")


def as_array(data: NDArray[np.uint8], path: str) -> NDArray[Any]:
    """The array in the bytes of an array file (NumPy's format 1.0), without a copy."""
    header = _HEADER.match(data[:_LONGEST_HEADER].tobytes())
    if header is None or header.end() % _ALIGNMENT:
        raise StorageError(
            f"{path} is not an array file: expected NumPy's format 1.0 with numbers in C order"
        )
    kind = np.dtype(header["kind"].decode())
    shape = tuple(int(length) for length in header["shape"].decode().split(",") if length.strip())
    n_bytes = len(data) - header.end()
    if math.prod(shape) * kind.itemsize != n_bytes:
        raise StorageError(f"{path} is not an array file: {n_bytes} bytes are not of shape {shape}")
    try:
        values: NDArray[Any] = data[header.end() :].view(kind).reshape(shape)
    except ValueError as error:  # a product of 0 with lengths that NumPy refuses
        raise StorageError(f"{path} is not an array file: {error}") from None
    return values


def as_names(data: NDArray[np.uint8], slots: NDArray[Any], path: str) -> Names:
    """The names in the bytes of an Arrow file, without a copy, with their hash table `slots`."""
    try:
        file = pa.ipc.open_file(pa.py_buffer(data))
        if file.num_record_batches != 1 or not set(file.schema.names) <= {"name", "count"}:
            raise ValueError("expected one batch with the columns name and count")
        table = file.read_all()
        table.validate()  # compares lengths with buffers; reading does not
        words = table["name"].chunk(0)
        if words.type not in (pa.string(), pa.large_string()) or words.null_count:
            raise ValueError(f"names are {words.type}, expected strings without null")
        uses = np.empty((0, 2), np.int64)
        if "count" in table.column_names:
            runs = table["count"].chunk(0)
            if {runs.run_ends.type, runs.values.type} != {pa.int64()}:
                raise ValueError(f"counts are {runs.type}, expected runs of 64-bit integers")
            uses = np.stack([runs.run_ends.to_numpy(), runs.values.to_numpy()], axis=1)
        _, offsets, text = words.buffers()
        width: Any = np.int64 if pa.types.is_large_string(words.type) else np.int32
        start = np.frombuffer(offsets, width)[: len(words) + 1] if offsets else np.zeros(1, width)
        if len(start) != len(words) + 1 or not start.flags.aligned:
            raise ValueError(f"{len(words)} names, but {len(start)} offsets")
        if text is not None and text.size and not _is_within(text, data):
            raise ValueError("compressed, expected plain")
    except (pa.ArrowException, ValueError, OSError, LookupError, AttributeError) as error:
        raise StorageError(f"{path} is not a file of names: {str(error)[:200]}") from None
    return freeze(Names(slots, start, np.frombuffer(text or b"", np.uint8), uses))


def _is_within(part: pa.Buffer, data: NDArray[np.uint8]) -> bool:
    """True if a buffer lies in the bytes of a file; decompressed buffers lie elsewhere."""
    start = data.ctypes.data
    return bool(start <= part.address and part.address + part.size <= start + len(data))


def map_array(folder: Path, name: str) -> NDArray[Any]:
    """The array NAME.npy of an unpublished version."""
    return as_array(Contents(folder).of(f"{name}.npy"), f"{folder}/{name}.npy")


def map_names(folder: Path, name: str) -> Names:
    """The names that `write_names` wrote into an unpublished version."""
    return _unchecked(folder, [f"{name}.arrow", f"{name}.slots.npy"]).names(name)


def map_vocabulary(folder: Path, name: str, files: Collection[str]) -> Any:
    """The vocabulary that `write_vocabulary` wrote into an unpublished version."""
    return _unchecked(folder, [file for file in files if file.startswith(name)]).vocabulary(name)


def _unchecked(folder: Path, names: Sequence[str]) -> _Opened:
    opened, contents = _Opened(folder, (), False), Contents(folder)
    opened.files = {name: contents.of(name) for name in names if not name.endswith(BLOCKS)}
    return opened


def restored(vocabulary: Any, kind: type[Any]) -> Any:
    """Convert a vocabulary from disk to the engine's type."""
    if isinstance(vocabulary, kind):
        return vocabulary
    if not isinstance(vocabulary, dict) or set(vocabulary) != set(kind._fields):
        raise StorageError(f"the vocabulary must have the fields {', '.join(kind._fields)}")
    return kind(**vocabulary)
