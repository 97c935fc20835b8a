"""The steps of a distributed build, for the tasks and the driver of Spark or any other cluster.

    every task     count(part)                        names and counts of its subscriptions
    the driver     merge(counts), write_names(…)      the vocabulary, the same for all shards
    every task     rarest(part)                       the rarest name of each subscription
    the driver     cut(counts of rarest names)        ranges of names, one for each shard
    every task     write(folder, n, part, …)          compile one shard and write its arrays
    the driver     publish(path, folder, …)           one manifest, one atomic switch

A shard is a table over any part of the subscriptions. An index over several shards gives the same
answers as one table over all subscriptions. If subscriptions are dealt out by their rarest name, an
event visits only the shards that hold one of its names: see `Routes`.

>>> import tempfile, matchyard as my
>>> parts = [([{"jazz"}, {"live"}], [1, 2]), ([{"jazz", "oslo"}], [3])]
>>> path = tempfile.mkdtemp() + "/music.index"
>>> plan = Plan()
>>> vocabulary = merge([count(sets, plan) for sets, _ in parts], plan)
>>> with new_version(path) as folder:
...     files = write_names(folder, vocabulary)
...     for number, (sets, keys) in enumerate(parts):
...         files += write(folder, number, sets, keys, vocabulary, plan)
...     publish(path, folder, files, plan, [len(parts)])
'0001'
>>> sorted(my.open(path).match([{"jazz", "oslo"}])[0])
[1, 3]
"""

from matchyard.shards.append import Carried, applied_in, carry, has_string_keys
from matchyard.shards.plan import Plan, plan_of
from matchyard.shards.routes import Routes, cut, open_routes, write_routes
from matchyard.shards.staged_parts import Part, compiled, deal, merged, sampled, stage
from matchyard.shards.steps import (
    can_join,
    count,
    join,
    merge,
    merge_keys,
    n_ids,
    open_names,
    open_shards,
    publish,
    rarest,
    scratch,
    subscriptions,
    write,
    write_key_names,
    write_names,
    write_table,
)
from matchyard.storage import File
from matchyard.storage.file_places import (
    below,
    beside,
    exists,
    is_file,
    is_within,
    parquet_files,
    publish_files,
    remove_folder,
)
from matchyard.storage.file_places import create_file as created
from matchyard.storage.file_places import open_file as opened
from matchyard.storage.leases import Held, release, renew
from matchyard.storage.retention import retain
from matchyard.storage.stream_records import OF_SQL
from matchyard.storage.versions import (
    adopt,
    current_version,
    hold_current,
    hold_version,
    manifest_of,
    new_version,
    version_of_batch,
)

__all__ = [
    "OF_SQL", "Carried", "File", "Held", "Part", "Plan", "Routes", "adopt", "applied_in", "below", "beside",
    "can_join", "carry", "compiled", "count", "created", "current_version", "cut", "deal", "exists",
    "has_string_keys", "hold_current", "hold_version", "is_file", "is_within", "join",
    "manifest_of", "merge", "merge_keys", "merged", "n_ids", "new_version", "open_names",
    "open_routes", "open_shards", "opened", "parquet_files", "plan_of", "publish", "publish_files",
    "rarest", "release", "remove_folder", "renew", "retain", "sampled", "scratch", "stage",
    "subscriptions", "version_of_batch", "write", "write_key_names", "write_names", "write_routes",
    "write_table",
]  # fmt: skip
