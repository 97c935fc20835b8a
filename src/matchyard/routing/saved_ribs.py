"""A RIB on disk: a version in a folder, in the layout of an index, with the arrays of `Table`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard import storage
from matchyard.errors import StorageError
from matchyard.kernels.csr import ragged
from matchyard.kernels.inspection import Inspection, inspect_names
from matchyard.kernels.routing.filters import INTERFACE_BITS
from matchyard.kernels.strings import Names
from matchyard.routing.descriptors import BLOOM_BITS, KINDS
from matchyard.storage import versions
from matchyard.storage.origins import Origins

ENGINE = "rib"  # takes the place of an engine's name in the manifest
# An entry is a tree and an interface in 31 bits.
MOST_INTERFACES, MOST_TREES = 1 << INTERFACE_BITS, 1 << 11


class Table(NamedTuple):
    """Filters, the entries of each, and the interfaces of the router on each tree."""

    id_start: NDArray[np.int32]  # [n_filters + 1] offsets into ids
    ids: NDArray[np.int32]  # rising within a filter; numbers of tags, or of bits
    entry_start: NDArray[np.int32]  # [n_filters + 1] offsets into entries
    entries: NDArray[np.int32]  # tree << 20 | interface; rising within a filter
    link_start: NDArray[np.int32]  # [n_trees + 1] offsets into links
    links: NDArray[np.int32]  # interfaces from 1 on, rising within a tree


class _Nothing(NamedTuple):
    """Empty options for the manifest; a RIB has no algorithm."""


def table_of(
    links: Sequence[Sequence[int]],
    start: NDArray[np.int64],
    ids: NDArray[np.int32],
    pairs: NDArray[np.int64],
    entries: NDArray[np.int32],
) -> Table:
    """The table of filters, from rising pairs of filter and entry."""
    counts = np.bincount(pairs, minlength=len(start) - 1)
    return Table(
        start.astype(np.int32),
        ids,
        ragged(counts).astype(np.int32),
        entries,
        ragged(np.array([len(tree) for tree in links], np.int64)).astype(np.int32),
        np.array([one for tree in links for one in tree], np.int32),
    )


def links_of(table: Table) -> list[list[int]]:
    """The interfaces of the router on each tree."""
    return [
        table.links[low:high].tolist()
        for low, high in zip(table.link_start[:-1], table.link_start[1:], strict=True)
    ]


def entries_of(links: Sequence[Sequence[int]]) -> list[int]:
    """All entries that filters of a router may have."""
    return [tree << INTERFACE_BITS | one for tree, some in enumerate(links) for one in (0, *some)]


def save(
    path: str | os.PathLike[str],
    kind: str,
    contents: Callable[[], tuple[Names, Table]],
    origins: Origins,
    overwrite: bool,
) -> None:
    """Write a version of the contents at this moment, and publish it in one step, like `Index.save`."""
    with versions.new_version(path) as folder:
        origins.check(path, overwrite)
        names, table = contents()
        with versions.writable(folder) as local:
            files = storage.write_vocabulary(local, "vocabulary", names)
            files += storage.write_table(local, 0, table)
        settings = storage.describe(ENGINE, kind, _Nothing(), _Nothing(), [1])
        version = versions.publish(path, folder, settings, files)
        origins.note(path, versions.manifest_of(path, version))


def load(
    path: str | os.PathLike[str], verify: Any = "auto", version: str | None = None
) -> tuple[dict[str, Any], Names, Table]:
    """Load and inspect a saved version: the manifest, in which `algorithm` is the form of descriptors, the names
    and the table."""
    saved = versions.load(path, verify, version)
    kind = saved.manifest["algorithm"]
    if saved.manifest["engine"] != ENGINE or kind not in KINDS:
        raise StorageError(
            f"{path} is an index of {saved.manifest['engine']}, not a RIB: open it with matchyard.open"
        )
    saved.check()  # all of it is read
    arrays = saved.segments[0].tables[0] if saved.segments[0].tables else {}
    if set(arrays) != set(Table._fields):
        odd = ", ".join(sorted(set(arrays) ^ set(Table._fields)))
        raise StorageError(f"{saved.folder} lacks or adds arrays of a RIB: {odd}")
    names, table = saved.segments[0].vocabulary, Table(**arrays)
    if not isinstance(names, Names):
        raise StorageError(f"{saved.folder} has no vocabulary of a RIB")
    inspect_names(names, f"{saved.folder}/vocabulary.", saved.is_thorough)
    # Loading reads every value anyway, to copy filters into a hash table: inspect all of them.
    look = Inspection(table, f"{saved.folder}/{storage.shard_folder(0)}", True)
    _inspect(look, table, BLOOM_BITS if kind == "bloom" else names.n_names)
    look.finish()
    return saved.manifest, names, table


def _inspect(look: Inspection, table: Table, n_ids: int) -> None:
    """Report arrays from which no RIB can be built."""
    n_filters, n_trees = look.length("id_start") - 1, look.length("link_start") - 1
    look.offsets("id_start", n_filters, look.length("ids"))
    look.values("ids", 0, n_ids)
    look.offsets("entry_start", n_filters, look.length("entries"))
    look.values("entries", 0, max(1, n_trees) << INTERFACE_BITS)
    look.offsets("link_start", n_trees, look.length("links"))
    look.values("links", int(len(table.links) > 0), MOST_INTERFACES)  # no links: no least value
    look.expect("link_start", n_trees <= MOST_TREES, f"has more than {MOST_TREES} trees")
    for start, values in (("id_start", "ids"), ("entry_start", "entries")):
        falls = np.flatnonzero(np.diff(getattr(table, values)) < (values == "ids")) + 1
        is_first = np.isin(falls, getattr(table, start))
        look.expect(values, bool(is_first.all()), "falls within a filter")
    is_again = np.append(np.diff(table.entries) == 0, False)
    is_again[table.entry_start[1:-1] - 1] = False  # the next entry is of another filter
    is_local = table.entries & (MOST_INTERFACES - 1) == 0
    look.expect("entries", not (is_again & ~is_local).any(), "has an interface twice")
    look.expect(
        "entries",
        bool(np.isin(np.unique(table.entries), entries_of(links_of(table))).all()),
        "has an interface that the router does not have",
    )
