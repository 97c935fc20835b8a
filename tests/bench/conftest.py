"""What all tests of benchmarks need: short passes."""

import gc

import pytest
from benchmarks.shared import steps, twig_sweeps

from matchyard.bench.compare import harness


@pytest.fixture
def quick(monkeypatch):
    """One pass of a few hundred events instead of several of about a second; collecting garbage
    before each pass would take longer than the pass, since Numba and Matplotlib are much to walk.
    """
    gc.freeze()
    monkeypatch.setattr(harness, "STEP", 128)
    monkeypatch.setattr(steps, "PASSES", 1)
    monkeypatch.setattr(steps, "PASS_S", 0.001)
    monkeypatch.setattr(twig_sweeps, "_WARM_ROUNDS", 1)
    monkeypatch.setattr(twig_sweeps, "_MOST_ROUNDS", 1)
    yield
    gc.unfreeze()
