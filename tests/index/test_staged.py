"""What is staged survives a consolidation that cannot even read it."""

from __future__ import annotations

from typing import Any

import pytest

import matchyard as my
from matchyard.engines.predicates.encoder.subscriptions import intake


@pytest.mark.parametrize("live", [False, True])
def test_additions_that_cannot_be_read_stay_staged(live: bool, monkeypatch: Any) -> None:
    index = my.PredicateIndex(live=live).add("x = 1", key=1).add("x = 2", key=2)

    def fail(self: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(intake.Staging, "take", fail)
        with pytest.raises(MemoryError):
            index.consolidate()
    assert index.consolidate().match([{"x": 2}])[0] == [2]


def test_too_many_negations_are_refused_when_they_are_added() -> None:
    index = my.PredicateIndex().add("x = 1", key=1)
    many = " and ".join(f"not x = {number}" for number in range(1 << 15))
    with pytest.raises(my.ParseError, match="32768 negated groups"):
        index.add(many, key=2)
    assert len(index.consolidate()) == 1


@pytest.mark.parametrize(
    ("where", "live"),
    [("Segment.remove", False), ("Segment.bury", True), ("cut", False), ("cut", True)],
)
def test_changes_stay_staged_where_a_card_is_gone(where: str, live: bool, monkeypatch: Any) -> None:
    index = my.TagIndex(live=live).add("jazz", key=1).add("rock", key=2).consolidate()
    index.add_many(["blues"], [3]).remove(1)

    def fail(*_: Any) -> Any:
        raise my.DeviceError("the card is gone")

    with monkeypatch.context() as patched:
        patched.setattr(f"matchyard.index.segment.{where}", fail)
        with pytest.raises(my.DeviceError, match="gone"):
            index.match(["jazz blues"]) if live else index.consolidate()
    assert sorted(index.consolidate().match(["jazz blues rock"])[0]) == [2, 3]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    "where", ["index.segment.ask_cards", "engines.tags.encoder.merge", "index.segment.cut"]
)
def test_removals_are_kept_where_rows_are_too_many(
    where: str, live: bool, monkeypatch: Any
) -> None:
    index = my.TagIndex(live=live).add("jazz", key=1).add("rock", key=2).consolidate()
    index.add_many(["blues"], [3]).remove(1)

    def fail(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("matchyard.index.segment._KEPT_BYTES", -1)
        patched.setattr(f"matchyard.{where}", fail)
        with pytest.raises(MemoryError):
            index.match(["jazz"]) if live else index.consolidate()
    is_late = (
        where == "index.segment.cut" and live
    )  # then rows are lost, which are all of a segment
    found = sorted(index.consolidate().match(["jazz blues rock"])[0])
    assert found == ([2] if is_late else [2, 3])


@pytest.mark.parametrize(("most_kept", "said"), [(1 << 30, "nothing has changed"), (-1, "is lost")])
def test_a_build_that_fails_says_what_became_of_its_rows(
    most_kept: int, said: str, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    index = my.TagIndex().add("jazz", key=1)
    with monkeypatch.context() as patched:
        patched.setattr("matchyard.index.segment._KEPT_BYTES", most_kept)
        patched.setattr("matchyard.kernels.csr.LARGEST_OFFSET", 0)
        with pytest.raises(my.UsageError, match="in one table"):
            index.consolidate()
    assert said in caplog.text
    assert len(index.consolidate()) == (most_kept > 0)
