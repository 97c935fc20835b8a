"""Files of object stores on this machine: each is fetched once, and mapped from here.

    files/SHA-256           a file, so that a new version costs only its changed files
    indexes/INDEX/VERSION   links to the files of a version
    drafts/…                the same for files of versions that are not published yet

Many processes use the cache at once. A folder that one of them has used a short while ago stays; others are
removed in one step, by a new name. A reader that finds something gone fetches it again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from matchyard.storage import File, needed
from matchyard.storage.content import open_lock
from matchyard.storage.object_store import Remote

try:
    import fcntl
except ImportError:  # not a POSIX system: a file may be fetched twice there
    fcntl = None  # type: ignore[assignment]

_VERSIONS = 2  # of one index
_DRAFTS = 16
_UNUSED_S = 600.0  # until then a folder may be needed: after a version is fetched, it is opened
_ATTEMPTS = 20  # to fetch a folder that others remove
_GONE = ".gone-"  # how the names of folders begin that are being removed


def cache_folder() -> Path:
    """The folder of fetched files: MATCHYARD_CACHE, or a part of the user's cache folder."""
    named = os.environ.get("MATCHYARD_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matchyard"


def fetch_version(index: Remote, version: str, shards: Collection[int] | None = None) -> Path:
    """Fetch a version, or the files that some shards need, into a local folder."""
    manifest, data = index.manifest(version)
    folder = _folder_of(index, version, data)
    _fetch(Remote(index.below(f"versions/{version}")), needed(manifest, shards), folder, data)
    _forget(folder.parent, _VERSIONS)
    return folder


def fetch_draft(unpublished: Remote, files: Sequence[File]) -> Path:
    """Fetch some files of a version that is not published yet into a local folder."""
    key = "".join(file.sha256 for file in files)
    folder = cache_folder() / "drafts" / hashlib.sha256(key.encode()).hexdigest()[:16]
    _fetch(unpublished, files, folder)
    _forget(folder.parent, _DRAFTS)
    return folder


def forget_damaged(index: Remote, version: str) -> None:
    """Remove a version from the cache, with those of its files whose content is another one."""
    manifest, data = index.manifest(version)
    _remove(_folder_of(index, version, data))
    for file in manifest["files"]:
        cached = _file(file)
        with _locked(cached), suppress(FileNotFoundError), cached.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
                cached.unlink()


def _folder_of(index: Remote, version: str, data: bytes) -> Path:
    """The folder of a version. Its name includes a hash of the manifest: a new index at the same address
    starts again with version 1."""
    name = hashlib.sha256(index.address.encode()).hexdigest()[:16]
    of_content = hashlib.sha256(data).hexdigest()[:16]
    return cache_folder() / "indexes" / name / f"{version}-{of_content}"


def _file(file: File) -> Path:
    return cache_folder() / "files" / file.sha256


def _fetch(source: Remote, files: Sequence[File], folder: Path, manifest: bytes = b"") -> None:
    """Have files in a folder, all at once, also if another process removes it meanwhile."""
    for is_last in [False] * _ATTEMPTS + [True]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
            for file in files:
                if not (folder / file.name).exists():
                    _have(source, file, folder / file.name)
                    os.utime(folder)
            if manifest and not (folder / "manifest.json").exists():
                _place(folder / "manifest.json", manifest)
            if all((folder / file.name).exists() for file in files):
                return
        except (FileNotFoundError, FileExistsError):  # a folder was removed: begin again
            if is_last:
                raise


def _have(source: Remote, file: File, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    cached = _file(file)
    with _locked(cached):  # other workers of this machine wait here for the file
        if not cached.exists():
            source.download(file, cached)
        _link(cached, target)


def _place(path: Path, data: bytes) -> None:
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(draft, path)


def _link(cached: Path, target: Path) -> None:
    try:
        os.link(cached, target)
    except FileExistsError:  # another process has linked the file
        return
    except FileNotFoundError:
        raise
    except OSError:  # the file system has no links: copy to a draft, then rename it
        draft = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}")
        shutil.copyfile(cached, draft)
        os.replace(draft, target)


@contextmanager
def _locked(cached: Path) -> Iterator[None]:
    """Hold the lock of a cached file, against other processes."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(cached.parent / f".lock-{cached.name[:2]}") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget(folders: Path, n_kept: int) -> None:
    """Remove the least recently used folders, but for those of the last minutes, and files that no folder
    links any more. Mapped files stay readable."""
    by_age = sorted((_used(folder), folder) for folder in folders.iterdir())
    before = time.time() - _UNUSED_S
    stale = [folder for used, folder in by_age[:-n_kept] if used < before]
    stale += [folder for _, folder in by_age[-n_kept:] if folder.name.startswith(_GONE)]
    for folder in stale:
        _remove(folder)
    for file in (cache_folder() / "files").iterdir() if stale else ():
        if not file.name.startswith("."):
            with _locked(file), suppress(FileNotFoundError):  # another process has removed it
                if file.stat().st_nlink == 1:
                    file.unlink()


def _used(folder: Path) -> float:
    """The second at which a folder was last used; 0 if it is gone."""
    with suppress(FileNotFoundError):
        return 0.0 if folder.name.startswith(_GONE) else folder.stat().st_mtime
    return 0.0


def _remove(folder: Path) -> None:
    """Remove a folder in one step, for those who look for it."""
    gone = folder.with_name(f"{_GONE}{uuid.uuid4().hex[:12]}")
    with suppress(OSError):  # another process removes it
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
