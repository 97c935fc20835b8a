"""tiles on a GPU: what one batch does to the next, and one event to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.device import Lane
from matchyard.engines.predicates._coded import HIGHEST, Batch, Filters
from matchyard.engines.predicates.algorithms import tiles, tiles_gpu
from tests.engines.predicates.test_counting import lists
from tests.engines.predicates.test_tiles import intervals_case, matches_by_numpy
from tests.gpu.test_tiles import PLAIN, cramped, on_both  # noqa: F401

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


def test_an_event_that_visits_a_posting_often_takes_no_place_of_another() -> None:
    n, constraints = 100, np.arange(201)
    rows, slots = constraints[: n + 1], np.tile(np.array([0, 1], np.int32), n)
    low = np.stack([np.full(n, 7), -rows[:n]], axis=1).ravel()  # x = 7 and y >= -i
    high = np.where(slots == 0, 7, HIGHEST)
    groups = np.zeros(2 * n, np.int16)
    filters = Filters(rows, constraints[::2], constraints, groups, slots, low, high)
    often = np.where(np.arange(400) % 50 == 0, 7, 1000 + np.arange(400))  # too far apart to be seen
    late = np.where(np.arange(400) == 399, 7, 2000 + np.arange(400))
    codes = np.concatenate([often, [0], late, [0]])
    names, none = (np.arange(802) % 401 == 400).astype(np.int32), np.zeros(802, np.int32)
    batch = Batch(np.array([0, 401, 802]), names, codes, none, none[:1], none[:1])
    _, found, layout = on_both(filters, np.arange(n), batch)
    assert layout.n_large == 1
    assert lists(found) == [list(range(n))] * 2


@pytest.mark.usefixtures("cramped")
def test_events_without_memory_for_their_pairs_do_not_spoil_the_next_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filters, batch = intervals_case(500, 60)
    table = tiles.compile(filters, np.arange(500), None, PLAIN)  # type: ignore[arg-type]
    space = tiles_gpu.workspace(table, PLAIN)
    wanted, empty = matches_by_numpy(filters, batch), Lane.empty

    def scarce(lane: Lane, name: str, size: int, kind: Any) -> Any:
        if name == "pairs" and size > tiles_gpu.ROOM:
            raise my.DeviceError("no memory")
        return empty(lane, name, size, kind)

    monkeypatch.setattr(Lane, "empty", scarce)
    with pytest.raises(my.DeviceError, match="no memory"):
        tiles_gpu.match(table, batch, space, PLAIN)
    bare = batch._replace(event_start=np.zeros(3, np.int64))
    assert lists(tiles_gpu.match(table, bare, space, PLAIN)) == [[], []]
    monkeypatch.undo()
    assert lists(tiles_gpu.match(table, batch, space, PLAIN)) == wanted
