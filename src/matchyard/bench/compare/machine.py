"""The machine and the versions behind a result."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from matchyard import __version__


def describe() -> dict[str, Any]:
    """Machine, versions, commit and date."""
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _versions() -> dict[str, str]:
    versions = {"matchyard": __version__}
    for name in ("numpy", "numba", "pyarrow", "cupy-cuda12x", "cupy-cuda13x"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


class Others:
    """The load of other processes from now on, since a measurement shares the machine with them."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), _others_s()

    def cores(self) -> float:
        """The mean number of cores that others kept busy; 0 if the system does not tell."""
        start, used = self._start
        return max(0.0, _others_s() - used) / max(1e-3, time.perf_counter() - start)


@contextmanager
def alone() -> Iterator[None]:
    """Lock out other processes with the same file in MATCHYARD_ALONE: several processes can build side
    by side and measure one at a time."""
    path = os.environ.get("MATCHYARD_ALONE")
    if not path:
        yield
        return
    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _others_s() -> float:
    """The processor seconds of all other processes since the machine started."""
    try:
        user, nice, system = map(int, Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - time.process_time()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def peak_bytes() -> int:
    """The peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    """The commit, with "-dirty" if the code differs from it; recorded results do not count as code."""
    try:
        commit = _git("describe", "--always").strip()
        code = _git("status", "--porcelain", "--", ":/src", ":/benchmarks/**/*.py")
        return f"{commit}-dirty" if code else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*given: str) -> str:
    return subprocess.run(["git", *given], capture_output=True, text=True, check=True).stdout
