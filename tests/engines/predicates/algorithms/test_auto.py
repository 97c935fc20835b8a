"""auto with a GPU: which batches go to the card. The card is made up here."""

from __future__ import annotations

from typing import Any

import pytest

import matchyard as my
from matchyard.engines.predicates.algorithms.auto import auto
from matchyard.engines.predicates.algorithms.auto import gpu as auto_gpu
from matchyard.engines.predicates.algorithms.tiles import gpu as tiles_gpu
from matchyard.engines.predicates.algorithms.tiles import tiles
from matchyard.index.segment import Segment


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each launch had; the CPU stands in for the card."""
    found: list[int] = []

    def match(table: Any, batch: Any, space: Any, options: Any) -> Any:
        found.append(batch.n_rows)
        return tiles.match(table, batch, space, options)

    monkeypatch.setattr(tiles_gpu, "workspace", tiles.workspace)
    monkeypatch.setattr(tiles_gpu, "match", match)
    return found


def segment_of(n_filters: int) -> Segment:
    index = my.PredicateIndex("auto")
    index.add_many([f"x = {i}" for i in range(n_filters)], keys=list(range(n_filters)))
    (segment,) = index.consolidate().segments()
    return segment


def matched(segment: Segment, n_events: int, space: Any = None) -> list[int]:
    settings, (table,) = segment.settings, segment.tables
    events = [{"x": i} for i in range(n_events)]
    column = settings.engine.encoder.column(events, settings.input_options)
    batch = segment.encode(column.rows(0, n_events))
    space = space or auto_gpu.workspace(table, settings.options)
    part = auto_gpu.match(table, batch, space, settings.options)
    keys: list[int] = part.keys.tolist()
    return keys


def test_many_events_go_to_the_card_and_few_do_not(launches: list[int]) -> None:
    segment = segment_of(1000)
    for n_events in (1, auto_gpu.EVENTS - 1, auto_gpu.EVENTS, 900):
        assert matched(segment, n_events) == list(range(n_events))
    assert launches == [auto_gpu.EVENTS, 900]


def test_with_many_filters_fewer_events_are_enough(
    launches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_gpu, "MANY_FILTERS", 1000)
    segment = segment_of(1000)
    for n_events in (auto_gpu.EVENTS_MANY_FILTERS - 1, auto_gpu.EVENTS_MANY_FILTERS):
        assert matched(segment, n_events) == list(range(n_events))
    assert launches == [auto_gpu.EVENTS_MANY_FILTERS]


def test_a_handful_of_filters_stays_on_the_cpu(launches: list[int]) -> None:
    assert matched(segment_of(auto.SMALL), 5000) == list(range(auto.SMALL))
    assert launches == []


def test_the_table_goes_to_the_card_when_that_is_first_used(
    launches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(
        tiles_gpu, "workspace", lambda *given: made.append(given) or tiles.workspace(*given)
    )
    segment = segment_of(100)
    space = auto_gpu.workspace(segment.tables[0], segment.settings.options)
    matched(segment, 10, space)
    assert made == []
    matched(segment, 300, space)
    matched(segment, 300, space)
    assert len(made) == 1
