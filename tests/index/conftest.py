"""What tests of an index share."""

from __future__ import annotations

import pytest

from matchyard.index import builds


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little room for recent additions, and joins after a few changes."""
    monkeypatch.setattr("matchyard.index.state.MOST", 8)
    monkeypatch.setattr(builds, "_MERGE_AT", 4)
    monkeypatch.setattr(builds, "_SIDE_LEAST", 12)
    monkeypatch.setattr("matchyard.index.state._LEAST_NAMES", 10)
