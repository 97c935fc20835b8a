"""Building blocks of a distributed build; what Spark, or any other cluster, runs in its tasks.

    every task     count(part)                        names and counts of its subscriptions
    the driver     merge(counts)                      the vocabulary, the same for all shards
    every task     write(folder, n, part, …)          compile one shard and write its arrays
    the driver     publish(path, folder, …)           one manifest, one atomic switch

A shard is a table over any part of the subscriptions; an index over several shards returns what one
table over all of them would.

>>> import tempfile, matchyard as my
>>> parts = [([{"jazz"}, {"live"}], [1, 2]), ([{"jazz", "oslo"}], [3])]
>>> path = tempfile.mkdtemp() + "/music.index"
>>> plan = Plan()
>>> vocabulary = merge([count(tags, plan) for tags, _ in parts])
>>> with new_version(path) as folder:
...     written = [
...         write(folder, number, tags, keys, vocabulary, plan)
...         for number, (tags, keys) in enumerate(parts)
...     ]
...     publish(path, folder, written, vocabulary, plan)
'0001'
>>> sorted(my.open(path).match([{"jazz", "oslo"}])[0])
[1, 3]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from matchyard import storage
from matchyard.engine import Configured, configure
from matchyard.errors import UsageError
from matchyard.kernels.csr import count_values
from matchyard.kernels.names import Interner, Names, rank_names
from matchyard.keys import number_keys
from matchyard.storage import File, new_version

__all__ = ["Plan", "count", "merge", "merge_keys", "new_version", "publish", "write"]


class Plan(NamedTuple):
    """What is built, the same in every task; plain values that travel well."""

    engine: str = "tags"
    algorithm: str | None = None
    options: Mapping[str, Any] = {}


def _resolve(plan: Plan) -> Configured:
    return configure(plan.engine, plan.algorithm, plan.options)


def count(subscriptions: Any, plan: Plan) -> pa.Table:
    """The names in some subscriptions and how often each is used: columns `name` and `count`."""
    engine, _, _, reading, _ = _resolve(plan)
    staging = engine.encoder.Staging()
    column = engine.encoder.column(subscriptions, reading)
    staging.add(column, np.zeros(column.n_rows, np.int64))
    batch, names, _ = staging.take()
    counts = count_values(batch.tags, names.n_names)
    return pa.table({"name": names.to_arrow(), "count": counts})


def merge(counts: Iterable[pa.Table]) -> Names:
    """The vocabulary of all parts, ranked by frequency."""
    interner, totals = Interner(), np.zeros(0, np.int64)
    for part in counts:
        for batch in part.to_batches():
            ids = interner.intern_arrow(batch["name"].cast(pa.large_string()))
            totals = np.append(totals, np.zeros(interner.n_names - len(totals), np.int64))
            np.add.at(totals, ids, batch["count"].to_numpy())
    vocabulary, _ = rank_names(interner.names(), totals)
    return vocabulary


def merge_keys(columns: Iterable[pa.Array]) -> Names:
    """The numbers of string keys, from the key columns of all parts."""
    interner = Interner()
    for column in columns:
        interner.intern_arrow(column.cast(pa.large_string()))
    return interner.names()


def write(
    folder: str | os.PathLike[str],
    number: int,
    subscriptions: Any,
    keys: Any,
    vocabulary: Names,
    plan: Plan,
    key_names: Names | None = None,
) -> list[File]:
    """Compile shard `number` and write it into a version that is being made."""
    engine, _, algorithm, reading, options = _resolve(plan)
    column = engine.encoder.column(subscriptions, reading)
    numbers = number_keys(keys, key_names)
    if len(numbers) != column.n_rows:
        raise UsageError(f"{column.n_rows} subscriptions, but {len(numbers)} keys")
    batch = engine.encoder.encode_known(column, vocabulary)
    table = algorithm.compile(batch, numbers, vocabulary, options)
    return storage.write_table(Path(folder), number, table)


def publish(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    shards: Sequence[Sequence[File]],
    vocabulary: Names,
    plan: Plan,
    key_names: Names | None = None,
) -> str:
    """Make the written shards the current version of the index; returns its number."""
    engine, name, _, reading, options = _resolve(plan)
    files = storage.write_names(Path(folder), "vocabulary", vocabulary)
    if key_names is not None:
        files += storage.write_names(Path(folder), "keys", key_names)
    for shard in shards:
        files += [File(*file) for file in shard]
    settings = storage.describe(engine.name, name, reading, options, len(shards))
    return storage.publish(path, Path(folder), settings, files)
