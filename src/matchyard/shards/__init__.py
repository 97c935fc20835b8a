"""The steps of a distributed build, for the tasks and the driver of Spark or any other cluster.

    every task     stage(…)                         its rows as numbers: parts, which are scratch files
    the driver     merged(…), write_names(…)        the vocabulary and the key names of all parts
    the driver     sampled(…), cut(…)               ranges of rarest names, one for each shard
    every task     deal(…)                          the rows of a part, by shard
    every task     compiled(…), write_table(…)      the table of one shard
    the driver     write_routes(…), publish(…)      one manifest, one atomic switch

A shard is a table over any part of the subscriptions. An index over several shards gives the same
answers as one table over all subscriptions. If subscriptions are dealt out by their rarest name, an
event visits only the shards that hold one of its names: see `Routes`. Otherwise `sampled`, `cut`,
`deal` and `write_routes` fall away, and each shard is compiled from some of the staged parts.

>>> import tempfile, matchyard as my
>>> tasks = [([{"jazz"}, {"live"}], [1, 2]), ([{"jazz", "oslo"}], [3])]
>>> path, plan, n_shards = tempfile.mkdtemp() + "/music.index", Plan(), 2
>>> with new_version(path) as folder:
...     parts = [part for rows in tasks for part in stage(folder, [rows], plan, scratch())]
...     vocabulary, key_names = merged(folder, parts, plan)
...     files = write_names(folder, vocabulary, key_names)
...     n_filed = sampled(folder, parts, vocabulary, plan)
...     routes = cut(n_filed + 1, n_shards)  # + 1: names outside the sample need a shard, too
...     dealt = []
...     for part in parts:
...         dealt += deal(folder, part, vocabulary, key_names, routes, plan, scratch())[0]
...     for number in range(n_shards):
...         own = [part for part in dealt if part.shard == number]
...         table = compiled(folder, own, vocabulary, key_names, plan)
...         files += write_table(folder, number, table)
...     files += write_routes(folder, routes)
...     publish(path, folder, files, plan, [n_shards])
'0001'
>>> sorted(my.open(path).match([{"jazz", "oslo"}])[0])
[1, 3]
"""

from matchyard.shards.append import Carried, carry, has_string_keys, of_key, parsed
from matchyard.shards.plan import Plan, plan_of
from matchyard.shards.routes import Routes, cut, open_routes, write_routes
from matchyard.shards.staged_parts import (
    Part,
    check,
    compiled,
    deal,
    merged,
    refused,
    sampled,
    stage,
)
from matchyard.shards.steps import (
    can_join,
    join,
    open_names,
    open_shards,
    publish,
    scratch,
    subscriptions,
    write_key_names,
    write_names,
    write_table,
)
from matchyard.storage import File, applied_in
from matchyard.storage.file_places import (
    below,
    beside,
    exists,
    is_file,
    is_remote,
    is_within,
    make_folder,
    parquet_files,
    path_text,
    publish_files,
    remove_abandoned,
    remove_folder,
    without_links,
)
from matchyard.storage.file_places import create_file as created
from matchyard.storage.file_places import open_file as opened
from matchyard.storage.history import Version, history, restore
from matchyard.storage.leases import LEASE_S, Lease, let_go, release, renew, while_busy
from matchyard.storage.retention import retain
from matchyard.storage.stream_records import OF_SQL
from matchyard.storage.stream_versions import version_of_batch
from matchyard.storage.versions import (
    adopt,
    current_version,
    hold_current,
    hold_version,
    manifest_of,
    new_version,
    refuse_late,
    version_before,
)

__all__ = [
    "LEASE_S",
    "OF_SQL",
    "Carried",
    "File",
    "Lease",
    "Part",
    "Plan",
    "Routes",
    "Version",
    "adopt",
    "applied_in",
    "below",
    "beside",
    "can_join",
    "carry",
    "check",
    "compiled",
    "created",
    "current_version",
    "cut",
    "deal",
    "exists",
    "has_string_keys",
    "history",
    "hold_current",
    "hold_version",
    "is_file",
    "is_remote",
    "is_within",
    "join",
    "let_go",
    "make_folder",
    "manifest_of",
    "merged",
    "new_version",
    "of_key",
    "open_names",
    "open_routes",
    "open_shards",
    "opened",
    "parquet_files",
    "parsed",
    "path_text",
    "plan_of",
    "publish",
    "publish_files",
    "refuse_late",
    "refused",
    "release",
    "remove_abandoned",
    "remove_folder",
    "renew",
    "restore",
    "retain",
    "sampled",
    "scratch",
    "stage",
    "subscriptions",
    "version_before",
    "version_of_batch",
    "while_busy",
    "without_links",
    "write_key_names",
    "write_names",
    "write_routes",
    "write_table",
]  # fmt: skip
