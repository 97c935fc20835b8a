"""Start a new version from the current one, without removed subscriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from matchyard import storage
from matchyard.errors import ParseError, UsageError
from matchyard.index.keys import integers, key_column
from matchyard.index.removals import Removals
from matchyard.index.verbs import Index
from matchyard.kernels.strings import Names, find_names
from matchyard.opening import from_saved
from matchyard.shards.plan import Plan, plan_of
from matchyard.storage import File, versions
from matchyard.storage.versions import AnyPath, current_version


class Carried(NamedTuple):
    """The files and settings that a new version takes over from the current one."""

    version: str  # the current one
    plan: Plan
    files: list[File]  # all but the names of keys
    segments: list[int]  # the number of shards of each segment
    key_names: Names | None
    has_keys: bool  # True if there are keys, including removed ones
    applied: dict[str, int]  # the last change of each source of changes


def carry(
    path: AnyPath, folder: Any, removed: pa.Table | None = None, deleted: pa.Table | None = None
) -> Carried:
    """Take the current version over into a new one, without removed subscriptions.

    Both tables have columns `subscription` and `key`; a null removes all subscriptions of the key. A row of
    `removed` removes every copy of its subscription under the key, a row of `deleted` one copy.
    Only tombstones are written; all other files are linked.
    """
    version = current_version(path)
    saved = versions.load(path, version=version)
    for file in saved.unchecked.values():  # the new version gets these names
        file.check()
    index = from_saved(path, saved)
    counts = saved.manifest["segments"]
    fresh: dict[str, list[File]] = {}
    all_copies = _removals(index, removed, saved.key_names)
    of_one = _removals(index, deleted, saved.key_names)
    removals = Removals(np.union1d(all_copies.keys, of_one.keys), all_copies.pairs)
    copies = Counter(of_one.pairs)
    pairs, left = list(copies), np.array(list(copies.values()), np.int64)
    for number, segment in enumerate(index.segments() if removals or pairs else ()):
        after = segment.remove(removals)
        if pairs:
            after, left = after.remove_copies(pairs, left)
        for shard, (old, new) in enumerate(zip(segment.outlines, after.outlines, strict=True)):
            for field in ("removed_keys", "removed_at"):
                if getattr(old, field) is not getattr(new, field):
                    name = f"{storage.shard_folder(shard, number)}{field}"
                    with versions.writable(folder) as local:
                        fresh[f"{name}.npy"] = storage.write_array(local, name, getattr(new, field))
    kept = [
        file
        for file in storage.needed(saved.manifest)
        if file.name.removesuffix(storage.BLOCKS) not in fresh and not file.name.startswith("keys.")
    ]
    versions.carry(path, version, folder, kept)
    return Carried(
        version,
        plan_of(saved.manifest),
        [*kept, *chain.from_iterable(fresh.values())],
        list(counts),
        saved.key_names,
        any(segment.n_keys for segment in index.segments()),
        storage.applied_in(saved.manifest),
    )


def has_string_keys(manifest: Mapping[str, Any]) -> bool:
    """True if the keys of a version are strings."""
    return any(file[0] == "keys.arrow" for file in manifest["files"])


def _removals(index: Index, removed: pa.Table | None, key_names: Names | None) -> Removals:
    nothing = Removals(np.empty(0, np.int64), [])
    if removed is None or not len(removed):
        return nothing
    column = key_column(removed["key"])
    if pa.types.is_integer(column.type):
        if key_names is not None:
            raise UsageError("integer keys cannot be removed from an index with string keys")
        numbers = integers(column)
        known = np.ones(len(numbers), bool)
    elif key_names is None:
        if len(index):
            raise UsageError("string keys cannot be removed from an index with integer keys")
        return nothing
    else:
        numbers = np.asarray(find_names(key_names, column), np.int64)
        known = numbers >= 0
    whole = np.asarray(removed["subscription"].combine_chunks().is_null())
    some = np.flatnonzero(known & ~whole)
    subscriptions, keys = (removed[name].combine_chunks() for name in ("subscription", "key"))
    values = parsed(index, subscriptions.take(some), keys.take(some))
    pairs = list(zip(values, numbers[some].tolist(), strict=True))
    return Removals(np.unique(numbers[known & whole]), pairs)


def parsed(index: Index, subscriptions: pa.Array, keys: pa.Array) -> list[Any]:
    """Subscriptions as values; an error names the key."""
    try:
        return index.parse_column(subscriptions)
    except ParseError:
        for row in range(len(subscriptions)):
            try:
                index.parse_column(subscriptions.slice(row, 1))
            except ParseError as error:
                raise of_key(error, keys[row].as_py()) from None
        raise


def of_key(error: ParseError, key: Any) -> ParseError:
    """The error of one row of a column, by the key of the row instead of its number."""
    reason = str(error).removeprefix("row 0")  # "row 0 is null", "row 0: column 3: …"
    if not reason.startswith((" ", ":")):
        reason = f": {reason}"
    return error.saying(f"a subscription of key {key!r}{reason}")
