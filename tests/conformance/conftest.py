"""On a GPU, few events go another way than many: both ways are to conform."""

import pytest

from matchyard.engines.predicates.algorithms import tiles_gpu
from matchyard.engines.tags.algorithms import _few_on_card


@pytest.fixture(autouse=True)
def _few_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of events have up to eight here, and some up to four."""
    monkeypatch.setattr(_few_on_card, "MOST_EVENTS", 2)
    monkeypatch.setattr(tiles_gpu, "FEW_EVENTS", 2)
