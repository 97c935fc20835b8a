"""What tests of an index share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cases import little_room


@pytest.fixture
def cramped() -> Iterator[None]:
    """Little room for recent additions, and joins after a few changes."""
    with little_room():
        yield
