"""The version that a micro-batch of a stream is matched with: chosen once, recorded, and read again by a replay."""

from __future__ import annotations

import hashlib

from matchyard.errors import StorageError
from matchyard.storage.file_places import is_remote, local_path
from matchyard.storage.stream_records import (
    NAMELESS,
    OF_SQL,
    forget_batches,
    is_first,
    keep_record,
    version_in,
)
from matchyard.storage.versions import AnyPath, current_version


def version_of_batch(
    path: AnyPath,
    stream: str,
    batch: int,
    record: AnyPath | None = None,
    version: str | None = None,
) -> str:
    """The version that a micro-batch of a stream is matched with, also if the batch runs again.

    The first caller records the current version, or the given one, in the folder `streams` of the
    index or of `record`. Later callers read the record. In a stream without a name, the number of a
    batch is its starting time, which Spark keeps.
    """
    if record is None and is_remote(path):
        raise StorageError(
            f"{path} cannot keep the versions of a stream, since object stores do not say who was "
            "first: name a folder that all workers share, e.g. follow='/shared/streams'"
        )
    name = stream or NAMELESS
    if record is not None:  # other indexes may use this folder, too
        name += f"-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    folder = local_path(record or path) / "streams" / name
    file = folder / f"{batch:09}"
    while not file.exists():
        taken = version or current_version(path)  # where there is no index, nothing is written
        folder.mkdir(parents=True, exist_ok=True)
        if is_first(file, taken):
            if not is_remote(path) and not (local_path(path) / "versions" / taken).is_dir():
                file.unlink()  # removed meanwhile
                if version is not None:
                    raise StorageError(f"{path} has no version {version}: it was removed")
                continue
            forget_batches(folder, stream, batch)
    if stream.startswith(OF_SQL):
        keep_record(file)
    return version_in(file)
