"""Save and open the files of one version of an index, and its manifest; nothing is ever pickled.
Read `files` first; `versions` publishes versions, and `object_store` fetches them. `journal`
keeps records that must survive, apart from indexes."""

from matchyard.storage.blocks import BLOCKS, Blocks
from matchyard.storage.content import Contents, sync_folder
from matchyard.storage.files import (
    Saved,
    SavedSegment,
    Verify,
    file_below,
    load_version,
    map_array,
    map_names,
    map_vocabulary,
    read_manifest,
    restored,
    write_array,
    write_manifest,
    write_names,
    write_table,
    write_vocabulary,
)
from matchyard.storage.journal import Journal, cut_off, read_whole
from matchyard.storage.manifest import (
    FORMAT,
    MANIFEST_BYTES,
    File,
    applied_in,
    describe,
    is_version,
    needed,
    parse_manifest,
    segment_folder,
    self_hash,
    shard_folder,
)
from matchyard.storage.unchecked import Unchecked

__all__ = [
    "BLOCKS", "FORMAT", "MANIFEST_BYTES", "Blocks", "Contents", "File", "Journal", "Saved", "SavedSegment", "Unchecked", "Verify", "applied_in", "cut_off", "describe", "file_below", "file_places",
    "history",
    "is_version", "leases", "load_version", "map_array", "map_names", "map_vocabulary", "needed",
    "object_store", "origins", "parse_manifest", "read_manifest", "read_whole", "restored", "retention", "segment_folder", "self_hash",
    "shard_folder", "stream_records", "stream_versions", "sync_folder", "versions", "write_array", "write_manifest", "write_names", "write_table",
    "write_vocabulary",
]  # fmt: skip
