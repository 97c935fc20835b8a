"""Which old versions of an index stay, and the removal of the others."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.errors import StorageError, UsageError
from matchyard.storage import MANIFEST_BYTES, is_version
from matchyard.storage.file_places import is_remote, local_path
from matchyard.storage.leases import leased, read_small, shorten, take, write_small
from matchyard.storage.object_store import Remote
from matchyard.storage.stream_records import in_use

_RETAINED = "retained"  # holds the leases of versions that were current within the last seconds
_BYTES = 256  # a longer file is damaged
_log = logging.getLogger("matchyard")


class Retention(NamedTuple):
    """The versions that stay: the newest ones, and those that were current within the last seconds."""

    versions: int = 2  # the current one, and its predecessor for late readers
    seconds: float = 0.0


def retain(path: Any, versions: int = 2, seconds: float = 0.0) -> None:
    """Say how many versions of an index stay, and for how long the others do. All writers of the index obey.

    >>> import tempfile
    >>> import matchyard as my
    >>> path = tempfile.mkdtemp() + "/music.index"
    >>> _ = my.TagIndex().save(path)
    >>> retain(path, versions=5, seconds=86400)
    >>> retention_of(path)
    Retention(versions=5, seconds=86400.0)
    """
    if not has_current(path):
        raise UsageError(f"{path} is no index: it has no file CURRENT")
    is_number = hasattr(versions, "__index__") and hasattr(seconds, "__float__")
    is_number = is_number and not {type(versions), type(seconds)} & {bool}
    if not is_number or versions < 1 or not 0 <= seconds < 1 << 40:
        raise UsageError(
            "versions must be an integer from 1 on and seconds at least 0, not "
            f"{versions!r} and {seconds!r}"
        )
    write_small(
        path, "retention.json", json.dumps({"versions": int(versions), "seconds": float(seconds)})
    )
    shorten(path, _RETAINED, seconds)


def has_current(path: Any) -> bool:
    """True if there is an index at the path."""
    if is_remote(path):
        return Remote(path).has("CURRENT")
    return (local_path(path) / "CURRENT").exists()


def retention_of(path: Any) -> Retention:
    """The versions of an index that stay."""
    try:
        text = read_small(path, "retention.json", _BYTES)
    except FileNotFoundError:
        return Retention()
    try:
        settings = json.loads(text)
        kept = Retention(int(settings["versions"]), float(settings["seconds"]))
    except (ValueError, KeyError, TypeError):
        raise StorageError(
            f"{path}/retention.json is damaged: it says {text[:60]!r}; "
            'expected e.g. {"versions": 2, "seconds": 0}'
        ) from None
    return kept._replace(versions=max(1, kept.versions))


def version_folders(root: Path) -> list[Path]:
    """The folders of all versions, oldest first."""
    folders = (path for path in (root / "versions").iterdir() if is_version(path.name))
    return sorted(folders, key=lambda path: int(path.name))


def before_switch(path: Any, version: str) -> None:
    """Retain the current version before another one takes its place: the writer may die before it tidies."""
    try:
        seconds = retention_of(path).seconds
        if seconds:
            take(path, version, _RETAINED, seconds)
    except (OSError, ValueError) as error:  # the new version is published nevertheless
        _log.warning("version %s of %s may be removed early: %s", version, path, error)


def tidy(path: Any, version: str) -> None:
    """Remove the versions before a new one that no rule, lease or stream keeps."""
    try:
        keep, seconds = retention_of(path)
        remote = Remote(path) if is_remote(path) else None
        numbers = (
            remote.versions() if remote else [at.name for at in version_folders(local_path(path))]
        )
        older = [number for number in numbers if int(number) < int(version)]
        if seconds and older:
            take(path, older[-1], _RETAINED, seconds)
        stale = older[: max(0, len(older) - (keep - 1))]
        if remote is None:
            _remove_old(local_path(path), stale)
            return
        _remove_remote(path, remote, stale)
    except (OSError, ValueError) as error:  # the new version is published nevertheless
        _log.warning("old versions of %s stay: %s", path, error)


def _remove_remote(path: Any, remote: Remote, versions: Sequence[str]) -> None:
    """Remove versions of an object store without a lease.

    They lose their manifests before leases are read again. A reader takes a lease before it looks for the
    manifest. So either the writer or the reader notices the other.
    """
    manifests, free = {}, set(versions) - leased(path)
    for number in free:
        name = f"versions/{number}/manifest.json"
        with suppress(FileNotFoundError):  # of a removal that was interrupted
            manifests[number] = remote.read(name, MANIFEST_BYTES)
        remote.remove_file(name)
    needed = leased(path) if free else set()
    for number in free:
        if number in needed and number in manifests:
            remote.write(f"versions/{number}/manifest.json", manifests[number])
        elif number not in needed:
            remote.remove(f"versions/{number}")


def _remove_old(root: Path, versions: Sequence[str]) -> None:
    """Remove versions without a lease that no stream may need again.

    Versions are hidden before leases and records of streams are read again. A task records its version
    before it looks for the folder. So either the writer or the task notices the other.
    """
    folders = root / "versions"
    needed = in_use(root) | leased(root)
    hidden = [number for number in versions if number not in needed]
    for number in hidden:
        (folders / number).rename(folders / f".old-{number}")
    needed = set(hidden)  # unless it is known which of them are
    try:
        needed = in_use(root) | leased(root)
    finally:
        for number in needed & set(hidden):
            (folders / f".old-{number}").rename(folders / number)
    for number in set(hidden) - needed:
        shutil.rmtree(folders / f".old-{number}", ignore_errors=True)
