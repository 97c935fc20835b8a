"""Several cards (one card that is named twice), and tables that do not fit on a card."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.engine import ENGINES
from matchyard.engines.predicates.algorithms.tiles import gpu as tiles_gpu
from matchyard.engines.tags.algorithms.shared import small_batch_gpu
from matchyard.gpu.resident import kept
from matchyard.index import placement
from matchyard.kernels.strings import n_bytes

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu
ON_CARD = [(engine, name) for engine in ENGINES for name in my.algorithms(engine, "gpu")]
KINDS = {"tags": my.TagIndex, "predicates": my.PredicateIndex, "twigs": my.TwigIndex}
SIZE, EVENTS = 6000, 2000


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits of small batches, so that the events of each thread count as many."""
    monkeypatch.setattr(small_batch_gpu, "MOST_EVENTS", 300)
    monkeypatch.setattr(tiles_gpu, "FEW_EVENTS", 300)


def source_of(engine: str) -> Any:
    name = {"tags": "twitter-popular", "predicates": "json-range", "twigs": "dblp"}[engine]
    return my.workload(engine, name, SIZE if engine != "twigs" else 300, 3)


def filled(engine: str, algorithm: str, device: str, shard_size: int = 1 << 28) -> my.Index:
    index = KINDS[engine](algorithm, device=device, shard_size=shard_size)
    for subscriptions, keys in source_of(engine).chunks():
        index.add_many(subscriptions, keys)
    return index.consolidate()


def checked(index: my.Index, engine: str, algorithm: str, threads: int = 1) -> None:
    events = source_of(engine).events(EVENTS if engine != "twigs" else 40)
    wanted = filled(engine, algorithm, "cpu").match(events)
    found = index.match(events, threads)
    assert wanted.work.matches > 0
    assert [sorted(row) for row in found] == [sorted(row) for row in wanted]


@pytest.mark.parametrize(("engine", "algorithm"), ON_CARD)
def test_threads_take_two_cards_in_turn(engine: str, algorithm: str) -> None:
    index = filled(engine, algorithm, "gpu:0,0")
    (segment,) = index.segments()
    borrowed = [segment.workspaces.borrow() for _ in range(2)]
    assert [place.part for ((place, _),) in borrowed] == [0, 1]  # type: ignore[union-attr]
    for one in borrowed:
        segment.workspaces.give_back(one)
    checked(index, engine, algorithm, threads=2)


@pytest.mark.parametrize(("engine", "algorithm"), ON_CARD)
@pytest.mark.parametrize("share", [0.9, 0.3], ids=["dealt out", "in turns"])
def test_a_table_that_is_too_large_for_a_card_is_cut_and_matched_in_parts(
    engine: str, algorithm: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    (segment,) = filled(engine, algorithm, "cpu").segments()
    room = int(share * n_bytes(segment.tables))
    monkeypatch.setattr(placement, "room", lambda place: room)
    held = len(kept)
    index = filled(engine, algorithm, "gpu:0,0")
    (segment,) = index.segments()
    assert len(segment.tables) == int(np.ceil(1 / share))
    assert segment.workspaces.in_turns == (share < 0.5)
    checked(index, engine, algorithm, threads=2)
    if share < 0.5:
        assert len(kept) == held


def test_many_tables_of_rarest_are_spread() -> None:
    index = filled("tags", "rarest", "gpu:0,0", shard_size=1000)
    assert len(index.segments()[0].tables) == 6
    checked(index, "tags", "rarest", threads=3)
