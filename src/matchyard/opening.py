"""Create or open an index of any engine by name; list algorithms and make workloads."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from matchyard.engine import find_algorithm, find_engine
from matchyard.errors import StorageError, UsageError
from matchyard.gpu.devices import kind_of
from matchyard.index.verbs import Index
from matchyard.kinds import PredicateIndex, TagIndex, TwigIndex
from matchyard.storage import Saved, Verify, versions
from matchyard.threads.interrupts import told_plainly

_KINDS: dict[str, type[Index]] = {
    kind.engine: kind for kind in (TagIndex, PredicateIndex, TwigIndex)
}


def create(
    engine: str,
    algorithm: str | None = None,
    options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    live: bool = False,
    threads: int = 1,
) -> Index:
    """Create an empty index of an engine.

    >>> create("tags")
    <TagIndex: 0 subscriptions, algorithm rarest>
    """
    find_engine(engine)
    return _KINDS[engine](algorithm, options, device, live, threads)


def algorithms(engine: str, device: str = "auto") -> tuple[str, ...]:
    """The algorithms of an engine that run on a device, the default first.

    >>> algorithms("tags")[0], algorithms("tags", "gpu")
    ('rarest', ('rarest', 'tagmatch', 'scan'))
    """
    rooms, kind = find_engine(engine), kind_of(device)
    return tuple(
        name
        for name in rooms.algorithms
        if kind == "auto" or kind in find_algorithm(rooms, name).DEVICES
    )


def workload(
    engine: str,
    name: str | None,
    size: int,
    seed: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """Make a workload of an engine; None is its first one. The engine's `workload` module lists the
    names and their parameters.

    >>> tags, keys = workload("tags", "twitter", size=100).subscriptions(0, 3)
    >>> len(tags), len(keys)
    (3, 3)
    """
    models = find_engine(engine).workload
    if not -(1 << 63) <= seed < 1 << 63:
        raise UsageError(f"seed {seed}; expected a number of at most 64 bits")
    return models.generate(name or next(iter(models.MODELS)), size, seed, parameters or {})


@told_plainly
def open(
    path: str | PathLike[str],
    verify: Verify = "auto",
    live: bool = False,
    threads: int = 1,
    device: str = "cpu",
    version: str | None = None,
) -> Index:
    """Open a saved index: the current version, or the named one. Small arrays are read, large ones
    are mapped. Nothing is written to the folder until `save` is called. An index at an address such
    as `s3://bucket/music.index` is fetched into a local cache first.

    Sizes, and the relations between arrays, are always checked. `verify` selects further checks:

    * "auto" detects damage, with fast checksums: at opening if the files have up to 1 GiB, else in
      blocks of 1 MiB before their first use, which is then what raises the StorageError. For an index
      in an object store it means True.
    * "lazy" checks blocks before their first use whatever the size.
    * True is for an index that somebody else made: it checks the SHA-256 of every file, and every
      value. Whatever its files contain, such an index can give wrong answers but do no other harm.
    * False compares no checksum.
    """
    return from_saved(path, versions.load(path, verify, version), live, threads, device)


def from_saved(
    path: str | PathLike[str],
    saved: Saved,
    live: bool = False,
    threads: int = 1,
    device: str = "cpu",
) -> Index:
    """The index of a version that was loaded from `path`."""
    if saved.manifest.get("engine") == "rib":
        raise StorageError(f"{path} is a RIB: open it with matchyard.routing.Rib.open")
    kind = _KINDS.get(str(saved.manifest.get("engine")))
    if kind is None:
        raise StorageError(f"{path} needs the engine {saved.manifest.get('engine')!r}")
    return kind.from_saved(path, saved, live, threads, device)
