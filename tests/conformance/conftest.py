"""On a GPU, few events go another way than many: both ways are to conform."""

import pytest

from matchyard.engines.predicates.algorithms.tiles import gpu as tiles_gpu
from matchyard.engines.tags.algorithms.shared import small_batch_gpu


@pytest.fixture(autouse=True)
def _few_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of events have up to eight here, and some up to four."""
    monkeypatch.setattr(small_batch_gpu, "MOST_EVENTS", 2)
    monkeypatch.setattr(tiles_gpu, "FEW_EVENTS", 2)
