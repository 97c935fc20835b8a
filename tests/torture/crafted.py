"""Open forged indexes with `verify=True`: they must be refused, or at worst give wrong answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import matchyard as my
from tests.torture import inputs
from tests.torture.arena import Tally, in_children, seeded, split
from tests.torture.rewriting import (
    array_bytes,
    array_mutations,
    copy,
    manifest_of,
    names_mutations,
    version_of,
    write_file,
    write_manifest,
)

PATIENCE_S = 30.0
MOST_BYTES = 4 << 30  # more than its parent: an index of kilobytes must not take as much


class Forgery(NamedTuple):
    """One way to forge one index."""

    source: Path
    engine: str
    algorithm: str
    events: list[Any]
    label: str
    forge: Callable[[Path], None]


def run(folder: Path, seed: int, rounds: int = 1, some: int | None = None) -> Tally:
    """Try all forgeries, or some of them; each further round draws new random changes."""
    tally, random = Tally("crafted indexes, verify=True"), seeded(seed, "crafted")
    indexes = inputs.saved_indexes(folder, random)
    kinds: set[str] = set()
    for _ in range(rounds):
        forgeries = [one for index in indexes for one in forgeries_of(*index, random)]
        if some is not None:
            forgeries = random.sample(forgeries, some)
        kinds |= {f"{one.engine} {one.algorithm} {one.label}" for one in forgeries}
        for one, outcome in in_children(forgeries, _attempt, PATIENCE_S, MOST_BYTES):
            kind, more = split(outcome)
            tally.count(kind, f"{one.engine} {one.algorithm} {one.label} {more}")
    tally.outcomes["kinds"] = len(kinds)
    return tally


def _attempt(forgery: Forgery) -> str:
    with tempfile.TemporaryDirectory(prefix="forged-") as place:
        path = copy(forgery.source, Path(place, "an.index"))
        before = inputs.answers(my.open(path), forgery.events)
        try:
            forgery.forge(path)
        except Exception:  # e.g. an array that has no such type
            return "not forged"
        index = my.open(path, verify=True)
        after = inputs.answers(index, forgery.events)
        use(index, forgery.events, Path(place, "other.index"), forgery.engine, forgery.algorithm)
        return "same" if after == before else "other answers"


def use(index: Any, events: list[Any], other: Path, engine: str, algorithm: str) -> None:
    """Call all functions of an index; it may refuse, or give any answer."""
    random = Random(1)
    index.match_unique(events)
    len(index), index.info(), index.memory()
    for key in ("k1", "k2") if index.info()["keys"] == "str" else (1, 2):
        index.explain(events[0], key)
    index.add(
        inputs.subscription(engine, random, algorithm), "k1" if index.info()["keys"] == "str" else 1
    )
    index.remove("k2" if index.info()["keys"] == "str" else 2)
    index.consolidate().match(events)
    index.save(other)
    my.open(other, verify=True).match(events)


def forgeries_of(
    source: Path, engine: str, algorithm: str, events: list[Any], random: Random
) -> Iterator[Forgery]:
    """All forgeries of an index."""

    def forgery(label: str, forge: Callable[[Path], None]) -> Forgery:
        return Forgery(source, engine, algorithm, events, label, forge)

    for name, *_ in manifest_of(source)["files"]:
        if "shards/0001" in name:  # the first shard has the same arrays
            continue
        if name.endswith(".npy"):
            for label, change in array_mutations(random).items():
                yield forgery(f"{name} {label}", _array(name, change))
        else:
            for label, write in names_mutations().items():
                yield forgery(f"{name} {label}", _names(name, write))
    if algorithm in ("rarest", "auto", "lazy_dfa"):
        for label, manifest in _manifests(manifest_of(source)).items():
            yield forgery(f"manifest {label}", _manifest(manifest))
        for label, place in _PLACES.items():
            yield forgery(label, place)


def _array(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        with np.errstate(all="ignore"):
            array = change(np.load(version_of(path) / name, allow_pickle=False))
        write_file(path, name, array_bytes(np.asarray(array)))

    return forge


def _names(name: str, write: Callable[[pa.Table], bytes]) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        table = pa.ipc.open_file(pa.py_buffer((version_of(path) / name).read_bytes())).read_all()
        write_file(path, name, write(table))

    return forge


def _manifest(manifest: Any) -> Callable[[Path], None]:
    return lambda path: write_manifest(path, manifest)


_ODD: list[Any] = [
    None, -1, 0, 1.5, True, 10**30, 2**63, "", "x" * 5000, "\0", "../x", "/etc/hostname", [], [[]],
    {}, {"a": 1}, [-1], [None], ["a"], [10**6], [1, 1], [[1]], [10**30], "\ud800", "ｔａｇｓ",
]  # fmt: skip


def _manifests(manifest: dict[str, Any]) -> dict[str, Any]:
    """Manifests with one wrong field each."""
    found: dict[str, Any] = {}
    for name in manifest:
        if name != "sha256":
            for number, odd in enumerate(_ODD):
                found[f"{name} odd {number}"] = {**manifest, name: odd}
            found[f"without {name}"] = {key: manifest[key] for key in manifest if key != name}
    for at in range(4):
        for number, odd in enumerate(_ODD):
            files = [list(entry) for entry in manifest["files"]]
            files[0][at] = odd
            found[f"files[0][{at}] odd {number}"] = {**manifest, "files": files}
    for name in ("../../x.npy", "/tmp/x.npy", "shards/0000/../../x.npy", "shards/9999/keys.npy", "a",
                 "vocabulary/../x.npy", "shards/0000/keys.npy\0", "shards/٠٠٠٠/keys.npy", "keys.npy",
                 "shards//keys.npy", "./keys.arrow", "segments/0000/routes.npy"):  # fmt: skip
        files = [[name, *manifest["files"][0][1:]], *manifest["files"][1:]]
        found[f"file called {name!r}"] = {**manifest, "files": files}
    found["a file twice"] = {**manifest, "files": manifest["files"] + manifest["files"][:1]}
    found["a file less"] = {**manifest, "files": manifest["files"][1:]}
    for name, value in manifest["options"].items():
        for number, odd in enumerate(_ODD):
            found[f"option {name} odd {number}"] = {
                **manifest, "options": {**manifest["options"], name: odd},
            }  # fmt: skip
        if isinstance(value, int):
            for odd in (1, 2, 63, 1 << 20, (1 << 63) - 1, -(1 << 63)):
                found[f"option {name} {odd}"] = {
                    **manifest, "options": {**manifest["options"], name: odd},
                }  # fmt: skip
    found["extra field"] = {**manifest, "more": 1}
    return found


def _fifo(name: str) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        (path / name).unlink()
        os.mkfifo(path / name)

    return forge


def _link(name: str, target: str) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        (path / name).unlink()
        (path / name).symlink_to(target)

    return forge


def _folder(name: str) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        (path / name).unlink()
        (path / name).mkdir()

    return forge


def _text(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(data) and None


_KEYS = "versions/0001/shards/0000/keys.npy"
_PLACES: dict[str, Callable[[Path], None]] = {
    **{
        f"{name} is {kind}": make(name)
        for name in ("CURRENT", "versions/0001/manifest.json", _KEYS)
        for kind, make in (("a pipe", _fifo), ("a folder", _folder))
    },
    **{
        f"{name} leads to {target}": _link(name, target)
        for name in ("CURRENT", "versions/0001/manifest.json", _KEYS)
        for target in ("/etc/hostname", "/dev/zero", "/dev/stdin", "/nowhere", name.split("/")[-1])
    },
    **{
        f"CURRENT says {data[:12]!r}": _text("CURRENT", data)
        for data in (b"1" * 10**6 + b"\n", b"0001", b"", b"\xff\n", b"-001\n", b"../1\n", b"0002\n")
    },
    "manifest is 100 000 deep": _text("versions/0001/manifest.json", b"[" * 10**5 + b"]" * 10**5),
    "manifest of 10 000 digits": _text(
        "versions/0001/manifest.json", b'{"format": ' + b"1" * 10**4 + b"}"
    ),
    "manifest with NaN": _text("versions/0001/manifest.json", b'{"format": NaN}'),
    "manifest is binary": _text("versions/0001/manifest.json", bytes(range(256))),
}
