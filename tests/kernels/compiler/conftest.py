"""Kernels of their own for tests of the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.compiler.probe import Probe, probe_in


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Probe]:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    with probe_in(tmp_path) as made:
        yield made
