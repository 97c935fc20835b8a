"""Where and with what a result was measured."""

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
    found = {"matchyard": __version__}
    for name in ("numpy", "numba", "pyarrow", "cupy-cuda12x", "cupy-cuda13x"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


class Others:
    """How much of the machine other processes take, from now on: a measurement shares with them."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), _others_s()

    def cores(self) -> float:
        """Cores that others kept busy since, on average; 0 where the system does not say."""
        start, used = self._start
        return max(0.0, _others_s() - used) / max(1e-3, time.perf_counter() - start)


@contextmanager
def alone() -> Iterator[None]:
    """Inside, no other process is that has the same file in MATCHYARD_ALONE: several can build side by
    side and measure one at a time."""
    path = os.environ.get("MATCHYARD_ALONE")
    if not path:
        yield
        return
    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _others_s() -> float:
    """Seconds of processor time of all processes but this one, since the machine started."""
    try:
        user, nice, system = map(int, Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - time.process_time()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def peak_bytes() -> int:
    """The most memory that this process had resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    """The commit, "-dirty" where the code is another; results that were written before are no code."""
    try:
        found = _git("describe", "--always").strip()
        code = _git("status", "--porcelain", "--", ":/src", ":/benchmarks/**/*.py")
        return f"{found}-dirty" if code else found
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*given: str) -> str:
    return subprocess.run(["git", *given], capture_output=True, text=True, check=True).stdout
