"""What is staged survives a consolidation that cannot even read it."""

from __future__ import annotations

from typing import Any

import pytest

import matchyard as my
from matchyard.engines.predicates import _subscriptions


@pytest.mark.parametrize("live", [False, True])
def test_additions_that_cannot_be_read_stay_staged(live: bool, monkeypatch: Any) -> None:
    index = my.PredicateIndex(live=live).add("x = 1", key=1).add("x = 2", key=2)

    def fail(self: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(_subscriptions.Staging, "take", fail)
        with pytest.raises(MemoryError):
            index.consolidate()
    assert index.consolidate().match([{"x": 2}])[0] == [2]


def test_too_many_negations_are_refused_when_they_are_added() -> None:
    index = my.PredicateIndex().add("x = 1", key=1)
    many = " and ".join(f"not x = {number}" for number in range(1 << 15))
    with pytest.raises(my.ParseError, match="32768 negated groups"):
        index.add(many, key=2)
    assert len(index.consolidate()) == 1
