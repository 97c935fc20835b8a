"""Versions of a saved index: immutable folders, and one file that names the current one.

A version is written beside the others, made durable, and published by replacing CURRENT. A reader
sees the old version or the new one, never a mixture. `retention` says which old versions stay, also
those that readers have leased or that a stream may need again (`stream_versions`). A path with a scheme, such as
`s3://…`, means an index in an object store (`matchyard.storage.object_store`).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import StorageError, UsageError
from matchyard.storage import (
    Contents,
    File,
    Saved,
    Verify,
    is_version,
    load_version,
    read_manifest,
    sync_folder,
    write_manifest,
)
from matchyard.storage.cache import fetch_draft, fetch_version, forget_damaged
from matchyard.storage.content import open_lock
from matchyard.storage.file_places import is_remote, local_path
from matchyard.storage.leases import Lease, hold, release
from matchyard.storage.object_store import CURRENT_BYTES, NO_VERSION, Remote, overtaken
from matchyard.storage.retention import before_switch, has_current, tidy, version_folders

AnyPath = str | os.PathLike[str]
_log = logging.getLogger("matchyard")
SCRATCH = "scratch/"  # a folder of an unfinished version; it is not published

try:
    import fcntl
except ImportError:  # not a POSIX system: writers are not kept apart there
    fcntl = None  # type: ignore[assignment]


# -------------------------------------------------------------------- reading


def current_version(path: AnyPath) -> str:
    """The number of the current version."""
    root = path if is_remote(path) else local_path(path)
    try:
        line = (
            Remote(path).read("CURRENT", CURRENT_BYTES)
            if is_remote(path)
            else Contents(local_path(path)).read("CURRENT", CURRENT_BYTES)
        )
    except FileNotFoundError:
        raise StorageError(f"{root} is not a Matchyard index: it has no file CURRENT") from None
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{root} cannot be read: {error}") from None
    version = line.decode(errors="replace").removesuffix("\n")
    if not is_version(version) or line != f"{version}\n".encode():
        raise StorageError(
            f"{root}/CURRENT is damaged: it says {line[:40]!r}, expected e.g. '0001'"
        )
    return version


def load(
    path: AnyPath,
    verify: Verify = "auto",
    version: str | None = None,
    shards: Collection[int] | None = None,
) -> Saved:
    """Open a version, by default the current one, or some of its shards. `verify` is "auto" or "lazy"
    (against damage; "auto" is the same as True for an object store), True (against malice) or False."""
    if not (isinstance(verify, bool) or verify in ("auto", "lazy")):
        raise UsageError(f'verify is "auto", "lazy", True or False, not {verify!r}')
    verify = True if verify == "auto" and is_remote(path) else verify
    is_fetched_anew = not is_remote(path)
    while True:
        chosen = current_version(path) if version is None else version
        try:
            return load_version(version_folder(path, chosen, shards), verify, shards)
        except (StorageError, FileNotFoundError):
            if not is_fetched_anew:  # the copy in the cache may be damaged, or removed just now
                is_fetched_anew = True
                forget_damaged(Remote(path), _number(chosen))
                continue
            # A writer may have published and tidied up since CURRENT was read.
            if version is not None or current_version(path) == chosen:
                raise


def manifest_of(path: AnyPath, version: str) -> dict[str, Any]:
    """The manifest of a version."""
    if is_remote(path):
        return Remote(path).manifest(_number(version))[0]
    return read_manifest(version_folder(path, version))


def _number(version: Any) -> str:
    """Check the number of a version, since it becomes part of a path."""
    if not isinstance(version, str) or not is_version(version):
        raise StorageError(
            f"not a version: {version!r}; expected its name or number, e.g. '0003' or 3"
        )
    return version


def version_folder(path: AnyPath, version: str, shards: Collection[int] | None = None) -> Path:
    """The local folder of a version. From an object store, the files of the shards are fetched."""
    if is_remote(path):
        return fetch_version(Remote(path), _number(version), shards)
    folder = Contents(local_path(path)).folder(f"versions/{_number(version)}")
    if not folder.is_dir():
        raise StorageError(
            f"{path} has no version {version}: it was removed or never existed; "
            f"the current one is {current_version(path)}"
        )
    return folder


def hold_version(path: AnyPath, version: str | int) -> Lease:
    """A version, by its name or number, with a lease; an error if it is not there."""
    name = str(version)
    if not isinstance(version, str | bool) and hasattr(version, "__index__"):
        name = f"{index(version):04}"
    manifest_of(path, name)
    lease = hold(os.fspath(path), name)
    try:
        manifest_of(path, name)  # a writer that comes later sees the lease
    except BaseException:
        release(lease)
        raise
    return lease


def hold_current(path: AnyPath) -> Lease:
    """The current version, with a lease: writers keep it."""
    while True:
        lease = hold(os.fspath(path), current_version(path))
        if current_version(path) == lease.version:  # a writer that comes later sees the lease
            return lease
        release(lease)


# -------------------------------------------------------------------- writing


def new_version(path: AnyPath) -> AbstractContextManager[Any]:
    """A folder (or its address) for the files of the next version; `publish` it inside the block.

    The block holds the index's lock, so that writers come one after the other.
    """
    return _NewVersion(path)


class _NewVersion:
    """The context of `new_version`. Not a generator: Ctrl-C inside a `with` statement may drop a
    generator, and Python then ignores a second Ctrl-C during its cleanup."""

    def __init__(self, path: AnyPath) -> None:
        self._path = path
        self._writing: AbstractContextManager[Any] = (
            Remote(path).new_version() if is_remote(path) else _LockedVersion(local_path(path))
        )

    def __enter__(self) -> Any:
        try:
            return self._writing.__enter__()
        except StorageError:
            raise
        except OSError as error:
            raise self._told(error) from None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        try:
            if self._writing.__exit__(kind, error, trace):
                return True
        except StorageError:
            raise
        except OSError as failure:
            # Ctrl-C stays Ctrl-C: after one, `shutil.rmtree` may close a file twice, which is this error.
            if isinstance(failure.__context__, KeyboardInterrupt):
                raise failure.__context__ from None
            error = failure
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise self._told(error) from None
        return None

    def _told(self, error: OSError) -> StorageError:
        return StorageError(f"{self._path} cannot be written: {error}")


class _LockedVersion:
    """The lock of an index in a folder, and the folder of its next version. A writer first removes
    the leftovers of interrupted or killed writers."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> Path:
        while True:
            folder = self._locked()
            if folder is not None:
                return folder

    def _locked(self) -> Path | None:
        """The folder of the next version; None if a writer that failed has removed the lock meanwhile."""
        root = self._root
        self._above = [above for above in root.parents if not above.exists()]
        if root.exists() and not _is_ours(root):
            raise StorageError(f"{root} exists and is not a Matchyard index; choose another path")
        versions = Contents(root).folder("versions")
        versions.mkdir(parents=True, exist_ok=True)
        self._lock = open_lock(root / ".lock")
        try:
            return self._begin(root, versions)
        except BaseException:
            self._lock.close()
            raise

    def _begin(self, root: Path, versions: Path) -> Path | None:
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        lock = root / ".lock"
        if not lock.exists() or not os.path.samestat(os.stat(lock), os.fstat(self._lock.fileno())):
            self._lock.close()
            return None
        left = [folder for name in (".writing-*", ".old-*") for folder in versions.glob(name)]
        for stale in [*left, *_unpublished(root)]:
            shutil.rmtree(stale, ignore_errors=True)
        prefix = f".writing-{version_before(root)}-"
        self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=versions))
        self._folder.chmod(0o755)  # tasks of other users may write into it
        return self._folder

    def __exit__(self, *raised: object) -> None:
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            if not has_current(self._root):  # a failed first version leaves nothing
                self._leave_nothing()
        finally:
            if (
                fcntl is not None
            ):  # `close` alone leaves it locked while a forked child has the file
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()

    def _leave_nothing(self) -> None:
        with suppress(OSError):  # a folder with other files stays
            (self._root / "versions").rmdir()
            (self._root / ".lock").unlink()
            for folder in (self._root, *self._above):
                folder.rmdir()


def _is_ours(root: Path) -> bool:
    """True if the folder has an index, is empty, or has only the leftovers of a killed first save. Looks once:
    another writer may publish the first version at this moment."""
    left = {"versions", ".lock", "CURRENT.new", "leases", "retention.json"}
    found = {entry.name for entry in root.iterdir()} if root.is_dir() else {""}
    return "CURRENT" in found or found <= left


def _unpublished(root: Path) -> list[Path]:
    """Versions that were renamed into place but never became the current one."""
    current = int(version_before(root))
    return [path for path in version_folders(root) if int(path.name) > current]


@contextmanager
def writable(folder: Any) -> Iterator[Path]:
    """A local folder whose files become part of an unfinished version."""
    if not is_remote(folder):
        yield local_path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="matchyard-") as scratch:
        yield Path(scratch)
        Remote(folder).put_all(Path(scratch))


def readable(folder: Any, files: Sequence[File]) -> Path:
    """A local folder with the given files of an unfinished version."""
    if not is_remote(folder):
        return local_path(folder)
    return fetch_draft(Remote(folder), files)


def scratch_bytes(folder: Any, name: str, start: int, n_bytes: int) -> NDArray[np.uint8]:
    """So many bytes of a file of an unfinished version from one on: mapped, or fetched from an object store. They
    can be changed in memory."""
    if is_remote(folder):
        return np.frombuffer(bytearray(Remote(folder).content(name, start, n_bytes)), np.uint8)
    return np.memmap(local_path(folder) / name, np.uint8, "c", start, (n_bytes,))


def adopt(folder: Any, files: Sequence[File]) -> list[File]:
    """Move files from a task's scratch folder into the version; return them with new names."""
    adopted = [file._replace(name=file.name.split("/", 2)[2]) for file in files]
    names = [(old.name, new.name) for old, new in zip(files, adopted, strict=True)]
    if is_remote(folder):
        Remote(folder).move_all(names)
        return adopted
    for old, new in names:
        target = local_path(folder) / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (local_path(folder) / old).rename(target)
    return adopted


def carry(path: AnyPath, version: str, folder: Any, files: Sequence[File]) -> None:
    """Link files of an older version into an unfinished one, or copy them if links fail."""
    if is_remote(path):
        Remote(path).copy_all(version, folder, files)
        return
    source, target = local_path(path) / "versions" / version, local_path(folder)
    for file in files:
        (target / file.name).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source / file.name, target / file.name)
        except OSError:  # the file system has no links
            shutil.copyfile(source / file.name, target / file.name)


def version_before(path: AnyPath) -> str:
    """The number of the version that the next one replaces; NO_VERSION if it is the first."""
    return current_version(path) if has_current(path) else NO_VERSION


def refuse_late(path: AnyPath, base: str) -> None:
    """Refuse to publish if another version than `base` is current: another writer was faster."""
    current = version_before(path)
    if current != base:
        raise overtaken(path, base, current)


def publish(path: AnyPath, folder: Any, settings: Mapping[str, Any], files: Sequence[File]) -> str:
    """Make a written folder the current version; returns its number."""
    with writable(folder) as local:
        write_manifest(local, settings, files)
    with suppress(StorageError):  # there is no current version before the first one
        before_switch(path, current_version(path))
    if is_remote(path):
        Remote(folder).remove(SCRATCH)
        version = Remote(path).publish(str(folder))
        tidy(path, version)
        return version
    root, folder = local_path(path), local_path(folder)
    refuse_late(root, folder.name.split("-")[1])  # not all shared file systems have locks
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    for below in [folder, *(entry for entry in folder.rglob("*") if entry.is_dir())]:
        sync_folder(below)
    older = version_folders(root)
    version = f"{int(older[-1].name) + 1 if older else 1:04}"
    folder.rename(root / "versions" / version)
    shutil.rmtree(root / "versions" / version / SCRATCH, ignore_errors=True)  # of late tasks
    sync_folder(root / "versions")
    line = root / "CURRENT.new"
    line.unlink(missing_ok=True)
    with line.open("xb") as file:  # only a new file, so that no existing link is followed
        file.write(f"{version}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(line, root / "CURRENT")
    sync_folder(root)
    tidy(path, version)
    return version
