"""The versions of an index that are there, and the way back to one of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from matchyard.errors import StorageError
from matchyard.storage import applied_in
from matchyard.storage.file_places import is_remote, local_path
from matchyard.storage.leases import release
from matchyard.storage.object_store import Remote
from matchyard.storage.retention import version_folders
from matchyard.storage.versions import (
    AnyPath,
    carry,
    current_version,
    hold_version,
    manifest_of,
    new_version,
    publish,
)

_SETTINGS = ("engine", "algorithm", "options", "segments")


class Version(NamedTuple):
    """A version of an index."""

    name: str  # such as "0003"
    published: datetime | None  # in UTC; None if the store does not say
    index_bytes: int
    segments: int  # 1 after a build, one more for each append
    applied: dict[str, int]  # the last change of each source of changes


def history(path: AnyPath) -> list[Version]:
    """The versions of an index that are there, oldest first; the last one is current.

    >>> import tempfile
    >>> import matchyard as my
    >>> path = tempfile.mkdtemp() + "/music.index"
    >>> _ = my.TagIndex().add("jazz", key=1).save(path)
    >>> _ = my.TagIndex().save(path)
    >>> [version.name for version in history(path)]
    ['0001', '0002']
    """
    remote = Remote(path) if is_remote(path) else None
    current = int(current_version(path))
    names = (
        remote.versions()
        if remote
        else [folder.name for folder in version_folders(local_path(path))]
    )
    found = [_described(path, remote, name) for name in names if int(name) <= current]
    return [version for version in found if version is not None]


def _described(path: AnyPath, remote: Remote | None, name: str) -> Version | None:
    """A version; None if a writer has removed it, or a part of it, meanwhile."""
    file = f"versions/{name}/manifest.json"
    try:
        manifest = manifest_of(path, name)
        seconds = remote.written(file) if remote else (local_path(path) / file).stat().st_mtime
    except (StorageError, FileNotFoundError):
        is_there = remote.has(file) if remote else (local_path(path) / file).exists()
        if is_there:
            raise
        return None
    return Version(
        name,
        None if seconds is None else datetime.fromtimestamp(seconds, UTC),
        sum(entry.size_bytes for entry in manifest["files"]),
        len(manifest["segments"]),
        applied_in(manifest),
    )


def restore(path: AnyPath, version: str | int) -> str:
    """Publish an old version again, as a new one; returns the name of the new one.

    It has the subscriptions, the settings and the applied changes of the old version. What was published since
    stays for a while, as after any other publication.

    >>> import tempfile
    >>> import matchyard as my
    >>> path = tempfile.mkdtemp() + "/music.index"
    >>> _ = my.TagIndex().add("jazz", key=1).save(path)
    >>> _ = my.TagIndex().save(path)
    >>> restore(path, 1)
    '0003'
    >>> my.open(path).match_one("jazz")
    [1]
    """
    lease = hold_version(path, version)
    try:
        with new_version(path) as folder:
            manifest = manifest_of(path, lease.version)
            carry(path, lease.version, folder, manifest["files"])
            settings = {name: manifest[name] for name in _SETTINGS}
            settings["applied"] = applied_in(manifest)
            return publish(path, folder, settings, manifest["files"])
    finally:
        release(lease)
