"""How an index gets to disk: the files of one version, its manifest, and their bytes.

Other packages import what is named here. How versions are written beside each other and published
is in `matchyard.storage.versions`. Nothing is ever pickled.
"""

from matchyard.storage.content import Contents
from matchyard.storage.files import (
    Saved,
    SavedSegment,
    Verify,
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
from matchyard.storage.manifest import (
    FORMAT,
    MANIFEST_BYTES,
    File,
    describe,
    is_version,
    needed,
    parse_manifest,
    segment_folder,
    self_hash,
    shard_folder,
)

__all__ = [
    "FORMAT",
    "MANIFEST_BYTES",
    "Contents",
    "File",
    "Saved",
    "SavedSegment",
    "Verify",
    "describe",
    "durable",
    "is_version",
    "load_version",
    "map_array",
    "map_names",
    "map_vocabulary",
    "needed",
    "object_store",
    "parse_manifest",
    "read_manifest",
    "restored",
    "segment_folder",
    "self_hash",
    "shard_folder",
    "versions",
    "write_array",
    "write_manifest",
    "write_names",
    "write_table",
    "write_vocabulary",
]
