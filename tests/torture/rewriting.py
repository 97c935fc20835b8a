"""Rewrite files of a saved index with correct checksums, so that only their content is wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from matchyard.storage import self_hash
from matchyard.storage.files import fast_checksum


def version_of(path: Path) -> Path:
    """The folder of the only version."""
    return path / "versions" / "0001"


def manifest_of(path: Path) -> dict[str, Any]:
    """The manifest as JSON, without checks."""
    manifest: dict[str, Any] = json.loads((version_of(path) / "manifest.json").read_text())
    return manifest


def write_manifest(path: Path, manifest: Any, is_signed: bool = True) -> None:
    """Replace the manifest; `is_signed` corrects its own checksum."""
    if is_signed and isinstance(manifest, dict):
        manifest["sha256"] = self_hash(manifest)
    (version_of(path) / "manifest.json").write_text(json.dumps(manifest))


def write_file(path: Path, name: str, data: bytes) -> None:
    """Replace one file of the version, and its entry in the manifest."""
    file = version_of(path) / name
    file.unlink(missing_ok=True)  # it may be a link to the file that others have
    file.write_bytes(data)
    manifest = manifest_of(path)
    entry = next(entry for entry in manifest["files"] if entry[0] == name)
    fast = fast_checksum(np.frombuffer(data, np.uint8)) if data else "0" * 16
    entry[1:] = [len(data), hashlib.sha256(data).hexdigest(), fast]
    write_manifest(path, manifest)


def copy(source: Path, target: Path) -> Path:
    """Copy an index with hard links, except the manifest and CURRENT."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    manifest = version_of(target) / "manifest.json"
    data = manifest.read_bytes()
    manifest.unlink()
    manifest.write_bytes(data)
    current = (target / "CURRENT").read_bytes()
    (target / "CURRENT").unlink()
    (target / "CURRENT").write_bytes(current)
    return target


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _some(array: Any, random: Random, change: Callable[[Any], Any]) -> Any:
    """The array with one value changed."""
    changed = array.copy()
    if changed.size:
        at = random.randrange(changed.size)
        changed.reshape(-1)[at] = change(changed.reshape(-1)[at])
    return changed


def _extreme(array: Any, highest: bool) -> Any:
    if array.dtype.kind == "b":
        return highest
    if array.dtype.kind == "f":
        return np.inf if highest else -np.inf
    limits = np.iinfo(array.dtype)
    return limits.max if highest else limits.min


def array_mutations(random: Random) -> dict[str, Callable[[Any], Any]]:
    """Functions that forge an array, by name."""
    shuffle = np.random.default_rng(random.getrandbits(32))

    def noise(array: Any) -> Any:
        data = shuffle.integers(0, 256, array.nbytes, np.uint8)
        return np.frombuffer(data.tobytes(), array.dtype).reshape(array.shape)

    def with_last(array: Any, value: Any) -> Any:
        changed = array.copy()
        if changed.size:
            changed.reshape(-1)[-1] = value
        return changed

    with np.errstate(all="ignore"):
        return {
            "times 2**24": lambda a: (a.astype(np.float64) * 2**24).astype(a.dtype) if a.dtype.kind == "f" else (a.astype(object) * (1 << 24) % (1 << 63)).astype(np.int64).astype(a.dtype),
            "plus one": lambda a: a ^ True if a.dtype.kind == "b" else a + a.dtype.type(1),
            "minus one": lambda a: a ^ True if a.dtype.kind == "b" else a - a.dtype.type(1),
            "zeros": np.zeros_like,
            "all highest": lambda a: np.full_like(a, _extreme(a, True)),
            "all lowest": lambda a: np.full_like(a, _extreme(a, False)),
            "one highest": lambda a: _some(a, random, lambda _: _extreme(a, True)),
            "one lowest": lambda a: _some(a, random, lambda _: _extreme(a, False)),
            "one random": lambda a: _some(a, random, lambda _: noise(a).reshape(-1)[0]),
            "one more": lambda a: _some(a, random, lambda v: a.dtype.type(v) if a.dtype.kind == "b" else v + a.dtype.type(1)),
            "one less": lambda a: _some(a, random, lambda v: a.dtype.type(v) if a.dtype.kind == "b" else v - a.dtype.type(1)),
            "one doubled": lambda a: _some(a, random, lambda v: a.dtype.type(v) if a.dtype.kind == "b" else v + v),
            "last highest": lambda a: with_last(a, _extreme(a, True)),
            "last zero": lambda a: with_last(a, 0),
            "noise": noise,
            "shuffled": shuffle.permutation,
            "reversed": lambda a: a[::-1].copy(),
            "sorted": lambda a: np.sort(a, axis=0),
            "cut to 3": lambda a: a[:3],
            "empty": lambda a: a[:0],
            "without the last": lambda a: a[:-1],
            "doubled": lambda a: np.concatenate([a, a]),
            "one longer": lambda a: np.concatenate([a, a[-1:]]) if len(a) else np.zeros((1, *a.shape[1:]), a.dtype),
            "2-d": lambda a: a.reshape(-1, 1),
            "0-d": lambda a: a.reshape(-1)[:1].sum(),
            "float": lambda a: a.astype(np.float32 if a.dtype == np.float64 else np.float64),
            "complex": lambda a: a.astype(np.complex128),
            "bytes": lambda a: a.astype("S4"),
            "narrow": lambda a: a.astype(np.int16 if a.dtype != np.int16 else np.int8),
            "wide": lambda a: a.astype(np.int64 if a.dtype != np.int64 else np.uint64),
            "big endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
            "structured": lambda a: a.astype([("x", a.dtype)]),
        }  # fmt: skip


def names_mutations() -> dict[str, Callable[[pa.Table], bytes]]:
    """Functions that forge a file of names, by name."""

    def written(table: pa.Table, **options: Any) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(
            sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)
        ) as writer:
            writer.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def renamed(table: pa.Table, names: Any) -> pa.Table:
        return pa.table({"name": names, **{n: table[n] for n in table.column_names if n != "name"}})

    def raw(words: list[bytes]) -> pa.Array:
        start = np.cumsum([0, *map(len, words)]).astype(np.int32)
        buffers = [None, pa.py_buffer(start), pa.py_buffer(b"".join(words))]
        return pa.Array.from_buffers(pa.string(), len(words), buffers)

    def offsets(table: pa.Table, change: Callable[[Any], Any]) -> bytes:
        words = table["name"].combine_chunks()
        if isinstance(words, pa.ChunkedArray):
            words = words.chunk(0) if words.num_chunks else pa.array([], pa.string())
        _, start, text = words.buffers()
        wide = np.int64 if pa.types.is_large_string(words.type) else np.int32
        numbers = (
            np.frombuffer(start, wide)[: len(words) + 1].copy() if start else np.zeros(1, wide)
        )
        made = pa.Array.from_buffers(
            words.type, len(words), [None, pa.py_buffer(change(numbers)), text]
        )
        return written(renamed(table, made))

    return {
        "integers": lambda t: written(renamed(t, pa.array(range(len(t))))),
        "bytes": lambda t: written(renamed(t, t["name"].cast(pa.binary()))),
        "nulls": lambda t: written(renamed(t, pa.array([None] * len(t), pa.string()))),
        "no UTF-8": lambda t: written(renamed(t, raw([b"\xff"] * len(t)))),
        "dictionary": lambda t: written(renamed(t, t["name"].combine_chunks().dictionary_encode())),
        "compressed": lambda t: written(t, compression="zstd"),
        "reversed": lambda t: written(renamed(t, t["name"].combine_chunks()[::-1])),
        "all the same": lambda t: written(renamed(t, pa.array(["a"] * len(t)))),
        "other column": lambda t: written(t.rename_columns(["x", *t.column_names[1:]])),
        "no rows": lambda t: written(t.slice(0, 0)),
        "half": lambda t: written(t.slice(0, len(t) // 2)),
        "offsets fall": lambda t: offsets(t, lambda n: n[::-1].copy()),
        "offsets huge": lambda t: offsets(
            t, lambda n: np.where(n > 0, n + 2**30, n).astype(n.dtype)
        ),
        "offsets negative": lambda t: offsets(t, lambda n: -n),
        "garbage": lambda t: b"ARROW1\0\0" + b"\xff" * 100 + b"ARROW1",
        "cut": lambda t: written(t)[:-20],
        "text": lambda t: b"hello",
        "nothing": lambda t: b"",
    }
