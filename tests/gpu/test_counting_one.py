"""counting on a card, one event at a time: the same keys and work as with a batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from matchyard.engines.predicates.algorithms.counting import counting, gpu_single_event
from matchyard.engines.predicates.encoder.layout import Batch
from tests.engines.predicates.algorithms.test_counting import SHAPES, case, expected, lists
from tests.gpu.predicates import COUNTING
from tests.gpu.test_counting import filters_of_size

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


def one_by_one(table: counting.Table, batch: Batch, space: Any, n_events: int) -> list[list[int]]:
    """The keys of the first events, each matched as a batch of one; also checks the work."""
    options = counting.Options()
    found, on_cpu = [], counting.workspace(table, options)
    for event in range(n_events):
        alone = batch._replace(event_start=batch.event_start[event : event + 2])
        part = COUNTING.match(table, alone, space)
        assert part.candidates == counting.match(table, alone, on_cpu, options).candidates
        found += lists(part)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_an_event_alone_finds_what_it_finds_among_others(name: str) -> None:
    filters, keys, batch = case(5, name)
    table = COUNTING.compile(filters, keys)
    space = COUNTING.workspace(table)
    assert one_by_one(table, batch, space, 60) == expected(filters, keys, batch)


def test_counters_are_clean_after_events_that_went_as_batches() -> None:
    filters, keys, batch = case(6, "unions")
    table = COUNTING.compile(filters, keys)
    space = COUNTING.workspace(table)
    wanted = expected(filters, keys, batch)
    bare = batch._replace(event_start=np.zeros(2, np.int64))
    for _ in range(3):
        assert one_by_one(table, batch, space, 7) == wanted[:7]
        assert lists(COUNTING.match(table, batch, space)) == wanted
        assert len(COUNTING.match(table, bare, space).event_start) == 2


def test_numbers_of_launches_begin_again() -> None:
    filters, keys, batch = case(7, "several values")
    table = COUNTING.compile(filters, keys)
    space = COUNTING.workspace(table)
    wanted = expected(filters, keys, batch)
    assert one_by_one(table, batch, space, 2) == wanted[:2]
    space.one._number = 0x7FFFFFFE
    assert one_by_one(table, batch, space, 5) == wanted[:5]


def test_an_event_with_more_codes_than_a_launch_takes_goes_as_a_batch() -> None:
    filters, _ = filters_of_size(2, 3)
    n_codes = gpu_single_event.MOST_CODES + 1
    none = np.zeros(n_codes, np.int32)
    batch = Batch(np.array([0, n_codes]), none, np.arange(n_codes), none, none[:1], none[:1])
    table = COUNTING.compile(filters, np.arange(3))
    space = COUNTING.workspace(table)
    assert space.one.match(table, batch) is None
    assert lists(COUNTING.match(table, batch, space)) == [[0, 1, 2]]
    fewer = batch._replace(event_start=np.array([1, n_codes]))
    assert space.one.match(table, fewer) is not None
    assert lists(COUNTING.match(table, fewer, space)) == [[0, 1, 2]]


def test_an_event_with_more_hits_than_there_is_room_for_goes_as_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_single_event, "ROOM", 2)
    filters, batch = filters_of_size(2, 3)
    table = COUNTING.compile(filters, np.arange(3))
    space = COUNTING.workspace(table)
    assert one_by_one(table, batch, space, 4) == [[], [], [0], [0, 1, 2]]
    assert one_by_one(table, batch, space, 4) == [[], [], [0], [0, 1, 2]]


def test_threads_that_are_new_may_match() -> None:
    filters, keys, batch = case(4, "plain")
    table = COUNTING.compile(filters, keys)
    space = COUNTING.workspace(table)
    wanted = expected(filters, keys, batch)
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(one_by_one, table, batch, space, 5).result() == wanted[:5]


def test_a_launch_that_fails_leaves_no_counts_to_the_next() -> None:
    filters, keys, batch = case(6, "several values")
    table = COUNTING.compile(filters, keys)
    space = COUNTING.workspace(table)
    wanted = expected(filters, keys, batch)
    assert one_by_one(table, batch, space, 2) == wanted[:2]
    launch = space.one._launch

    def fail(*_: Any) -> None:
        raise MemoryError

    space.one._launch = fail
    with pytest.raises(MemoryError):
        one_by_one(table, batch, space, 1)
    space.one._launch = launch
    assert one_by_one(table, batch, space, 5) == wanted[:5]
