"""Leases: a reader says that it needs a version for a while, and writers keep the version.

    leases/VERSION-HOLDER      a file with the second at which the lease runs out

A process renews the leases that it holds. If it crashes, its leases run out. A reader takes its lease and then
looks whether its version is still the current one; a writer switches to a new version and then reads
the leases. So one of them always notices the other. Clocks may differ by much less than `LEASE_S`.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from matchyard.errors import StorageError
from matchyard.storage import Contents, is_version
from matchyard.storage.file_places import is_remote, local_path
from matchyard.storage.object_store import Remote

LEASE_S = 5400.0  # so that a version stays for an hour after its reader was last seen
_RENEW_S = 600.0
_LEASE_BYTES = 64  # a longer file is damaged
_REQUESTS = 16  # leases of an object store that are read at a time
_log = logging.getLogger("matchyard")


def take(path: Any, version: str, holder: str, seconds: float = LEASE_S) -> None:
    """Write a lease, or prolong it."""
    write_small(path, f"leases/{version}-{holder}", f"{time.time() + seconds:.0f}\n")


def leased(path: Any) -> set[str]:
    """The versions with a lease. Leases that ran out long ago are removed."""
    names = [name for name in _names(path) if is_version(name.partition("-")[0])]
    versions, now = set(), time.time()
    for name, ends in zip(names, _ends(path, names), strict=True):
        if ends >= now:
            versions.add(name.partition("-")[0])
        elif ends < now - LEASE_S:  # its holder may be about to renew it
            _remove(path, f"leases/{name}")
    return versions


def shorten(path: Any, holder: str, seconds: float) -> None:
    """Let the leases of a holder run out within so many seconds."""
    for name in _names(path):
        version, _, its_holder = name.partition("-")
        if its_holder != holder:
            continue
        if not seconds:
            _remove(path, f"leases/{name}")
        elif _end(path, name) > time.time() + seconds:
            take(path, version, holder, seconds)


def _ends(path: Any, names: list[str]) -> list[float]:
    """The second at which each lease runs out. In an object store, where each is a request, several at a time."""
    if len(names) < 2 or not is_remote(path):
        return [_end(path, name) for name in names]
    with ThreadPoolExecutor(min(_REQUESTS, len(names)), "leases") as pool:
        return list(pool.map(partial(_end, path), names))


def _end(path: Any, name: str) -> float:
    try:
        return float(read_small(path, f"leases/{name}", _LEASE_BYTES))
    except (FileNotFoundError, ValueError, StorageError):
        return 0.0  # removed by another writer, or damaged: leases are written in one step


# -------------------------------------------------------------------- of this process


class Held:
    """One use of a version by this process."""

    __slots__ = ("path", "version")

    def __init__(self, path: str, version: str) -> None:
        self.path, self.version = path, version


class _Process:
    """The leases of this process, and the thread that renews them."""

    id = 0  # a forked child begins anew
    holder = ""
    held: set[Held] = set()  # noqa: RUF012
    seen: dict[tuple[str, str], float] = {}  # noqa: RUF012  # when a lease was last written
    renewer: threading.Thread | None = None


def hold(path: str, version: str) -> Held:
    """Keep a version until `release`, and for at least an hour after it. Readers that may not write to the
    index have no lease."""
    _begin()
    use = Held(path, version)
    _Process.held.add(use)
    _Process.seen.pop((path, version), None)  # another index may have been built at this path
    renew(path, version)
    if _Process.renewer is None:
        _Process.renewer = threading.Thread(target=_renew_all, daemon=True, name="leases")
        _Process.renewer.start()
    return use


def release(use: Held) -> None:
    """Renew a lease no longer. Finalizers may call this at any time: `discard` is one step."""
    _Process.held.discard(use)


def renew(path: str, version: str) -> None:
    """Write the lease of this process, unless it was written a short while ago."""
    _begin()
    what, now = (path, version), time.monotonic()
    if now - _Process.seen.get(what, -LEASE_S) < _RENEW_S / 2:
        return
    try:
        take(path, version, _Process.holder)
        _Process.seen[what] = now
    except Exception as error:  # of any store: a reader goes on without a lease
        _log.info("no lease of version %s of %s: %s", version, path, error)


def _begin() -> None:
    if _Process.id != os.getpid():
        _Process.id, _Process.holder = os.getpid(), uuid.uuid4().hex[:16]
        _Process.held, _Process.seen, _Process.renewer = set(), {}, None


def _renew_all() -> None:
    while True:
        time.sleep(_RENEW_S)
        for path, version in {(use.path, use.version) for use in list(_Process.held)}:
            renew(path, version)


# -------------------------------------------------------------------- files


def write_small(path: Any, name: str, text: str) -> None:
    """Write a small file of an index in one step."""
    if is_remote(path):
        Remote(path).write(name, text.encode())
        return
    folder, _, last = name.rpartition("/")
    file = Contents(local_path(path)).folder(folder) / last
    file.parent.mkdir(exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w") as target:
            os.fchmod(descriptor, 0o644)  # other users' writers read it, too
            target.write(text)
        os.replace(draft, file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def read_small(path: Any, name: str, most: int) -> str:
    """Read a small file of an index, of at most so many bytes."""
    folder = Remote(path) if is_remote(path) else Contents(local_path(path))
    return folder.read(name, most).decode(errors="replace")


def _names(path: Any) -> list[str]:
    if is_remote(path):
        return [name.removeprefix("leases/") for name in Remote(path).names("leases")]
    try:
        return os.listdir(local_path(path) / "leases")
    except FileNotFoundError:
        return []


def _remove(path: Any, name: str) -> None:
    if is_remote(path):
        Remote(path).remove_file(name)
    else:
        (local_path(path) / name).unlink(missing_ok=True)
