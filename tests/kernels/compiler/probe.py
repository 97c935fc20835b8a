"""Small kernels in modules of their own, which tests write, change and import again as new processes do."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from matchyard.kernels.compiler import code_cache

HELPERS = """
from numba import njit

STEP = 1

@njit(nogil=True, cache=True)
def step(number):
    if number < 0:
        raise ValueError("a negative number", number)
    return number + STEP
"""
KERNELS = """
from numba import njit
from matchyard.probe_helpers import step

@njit(nogil=True, cache=True)
def twice(number):
    return step(step(number))

@njit(nogil=True, cache=True)
def thrice(number):
    return step(twice(number))
"""


class Probe:
    """A package of two modules in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.helpers, self.kernels = HELPERS, KERNELS

    def load(self) -> ModuleType:
        """Import both modules anew, without what was compiled before."""
        for cached in ("_sources", "_imports", "_source"):
            getattr(code_cache, cached).cache_clear()
        _load("matchyard.probe_helpers", self.folder / "probe_helpers.py", self.helpers)
        return _load("matchyard.probe", self.folder / "probe.py", self.kernels)

    def files(self) -> list[str]:
        """The kernels with a file, by name."""
        return sorted(file.name.split(".")[1] for file in self.folder.rglob("*.nbc"))


@contextmanager
def probe_in(folder: Path) -> Iterator[Probe]:
    """A probe whose machine code goes to the same folder."""
    try:
        yield Probe(folder)
    finally:
        for name in ("matchyard.probe", "matchyard.probe_helpers"):
            sys.modules.pop(name, None)


def n_hits(kernel: Any) -> int:
    """How many signatures of a kernel were loaded from files."""
    return sum(kernel.stats.cache_hits.values())


def _load(name: str, path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
