"""Leases: a reader says that it needs a version for a while, and writers keep the version.

    leases/VERSION-HOLDER      a file with the second at which the lease runs out

A process renews the leases that it holds, as do the tasks that run for it. At its end it removes them from file
systems; in object stores, or if it crashes, they run out. A reader takes its lease and then looks whether its version is still the current one; a writer switches to a new version and then reads
the leases. So one of them always notices the other. Clocks may differ by much less than `LEASE_S`.
"""

from __future__ import annotations

import atexit
import logging
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
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


def take(path: Any, version: str, holder: str, seconds: float) -> None:
    """Write a lease, or prolong it."""
    write_small(path, f"leases/{version}-{holder}", f"{time.time() + seconds:.0f}\n")


def leased(path: Any) -> set[str]:
    """The versions with a lease. Leases that ran out long ago are removed."""
    names = [name for name in _names(path) if is_version(name.partition("-")[0])]
    versions, now = set(), time.time()
    for name, ends in zip(names, _ends(path, names), strict=True):
        if ends >= now:
            versions.add(name.partition("-")[0])
        elif not ends >= now - LEASE_S:  # until then its holder may be about to renew it
            with suppress(OSError):  # of somebody else, who may be alone in removing it
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


class Lease:
    """One use of a version by a process. All its uses have one file, which its tasks on other machines renew, too."""

    __slots__ = ("holder", "path", "version")

    def __init__(self, path: str, version: str, holder: str) -> None:
        self.path, self.version, self.holder = path, version, holder

    @property
    def file(self) -> tuple[str, str]:
        """The path of the index, and the name of the lease."""
        return self.path, f"{self.version}-{self.holder}"


@dataclass
class _Process:
    """The leases that a process holds, and the thread that renews them. A forked child begins anew."""

    id: int = field(default_factory=os.getpid)
    holder: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    held: set[Lease] = field(default_factory=set)
    let_go: set[Lease] = field(default_factory=set)  # of those held: renewed while it is busy
    is_busy: Callable[[], bool] | None = None  # asked in each round of renewals
    written: dict[tuple[str, str], float] = field(default_factory=dict)  # when, by this process
    tidied: set[str] = field(default_factory=set)  # indexes whose old leases it has removed
    renewer: threading.Thread | None = None


_process = _Process()


def _this_process() -> _Process:
    global _process
    if _process.id != os.getpid():
        _process = _Process()
    return _process


def hold(path: str, version: str) -> Lease:
    """Keep a version until `release`, and for at least an hour after it. Readers that may not write to the
    index have no lease."""
    process = _this_process()
    lease = Lease(path, version, process.holder)
    process.held.add(lease)
    process.written.pop(lease.file, None)  # a new index may be at this path
    renew(lease)
    if path not in process.tidied:
        process.tidied.add(path)
        with suppress(Exception):  # of any store: writers remove old leases, too
            leased(path)
    if process.renewer is None or not process.renewer.is_alive():
        process.renewer = threading.Thread(target=_renew_all, daemon=True, name="leases")
        process.renewer.start()
        atexit.register(_end_all, process)
    return lease


def release(lease: Lease) -> None:
    """Renew a lease no longer. Finalizers may call this at any time: `discard` is one step."""
    _process.held.discard(lease)


def let_go(lease: Lease) -> None:
    """Renew a lease only while the process is busy with work that may need it; see `while_busy`. Finalizers may
    call this at any time: `add` is one step."""
    _process.let_go.add(lease)


def while_busy(is_busy: Callable[[], bool]) -> None:
    """Say how to find out whether this process is busy."""
    _this_process().is_busy = is_busy


def renew(lease: Lease, seconds: float = LEASE_S) -> None:
    """Write a lease, unless its holder or one of its tasks wrote it a short while ago."""
    written, now = _this_process().written, time.monotonic()
    if now - written.get(lease.file, -LEASE_S) < _RENEW_S / 2:
        return
    written[lease.file] = now  # also if it fails, which is likely to happen again at once
    try:
        if is_remote(lease.path) or _end(*lease.file) < time.time() + seconds - _RENEW_S:
            take(lease.path, lease.version, lease.holder, seconds)
    except Exception as error:  # of any store: a reader goes on without a lease
        _log.info("no lease of version %s of %s: %s", lease.version, lease.path, error)


def _renew_all() -> None:
    while True:
        time.sleep(_RENEW_S)
        renew_held()


def renew_held() -> None:
    """One round of renewals."""
    process, is_busy = _process, False
    try:
        is_busy = process.is_busy is not None and process.is_busy()
    except Exception as error:  # of Spark, which may have ended
        _log.info("leases are renewed as those of an idle process: %s", error)
    for lease in list(process.held):
        if lease not in process.let_go or is_busy:
            renew(lease)
        elif time.monotonic() - process.written.get(lease.file, -LEASE_S) > LEASE_S:
            process.held.discard(lease)
    process.let_go &= process.held


def _end_all(process: _Process) -> None:
    """Remove the leases of a process that ends, but for those in object stores, which may not answer."""
    if process.id == os.getpid():
        for path, name in process.written:
            if name.endswith(process.holder) and not is_remote(path):
                with suppress(OSError):
                    _remove(path, f"leases/{name}")


# -------------------------------------------------------------------- files


def write_small(path: Any, name: str, text: str) -> None:
    """Write a small file of an index in one step."""
    if is_remote(path):
        Remote(path).write(name, text.encode())
        return
    folder, _, last = name.rpartition("/")
    root = local_path(path)
    file = Contents(root).folder(folder) / last
    if not file.parent.exists():
        file.parent.mkdir(exist_ok=True)
        file.parent.chmod(root.stat().st_mode & 0o7777)  # who may write to the index may do so here
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
