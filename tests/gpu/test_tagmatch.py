"""Tests of batches on a card; tests/conformance has the tests of all algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchyard.engines.tags.algorithms.shared import small_batch_gpu
from matchyard.engines.tags.algorithms.tagmatch import gpu as tagmatch_gpu
from tests.cases import build, counted
from tests.gpu.test_rarest import check_some_rows, drawn

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["cpu", "gpu", "few"])
def pre_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device of the pre-process; "few" tests small batches, without a separate pre-process."""
    if request.param == "few":
        return "gpu"
    monkeypatch.setattr(small_batch_gpu, "MOST_EVENTS", 0)
    way: str = request.param
    return way


def both(rows: list[list[str]], keys: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The same index on the CPU and on a card."""
    return tuple(build(rows, keys, "tagmatch", options, device=name) for name in ("cpu", "gpu"))  # type: ignore[return-value]


@pytest.mark.parametrize("max_partition", [3, 100, 10_000])
@pytest.mark.parametrize("n_bits", [40, 192])
def test_it_finds_what_the_cpu_finds_and_looks_at_as_much(
    pre_process: str, max_partition: int, n_bits: int
) -> None:
    rows, events = drawn(5000, 300, 6, seed=1), drawn(700, 330, 20, seed=2)
    options = {"max_partition": max_partition, "n_bits": n_bits, "pre_process": pre_process}
    on_cpu, on_gpu = both(rows, np.arange(5000) % 3000, options)
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work
    assert found.to_lists() == on_gpu.match(events).to_lists()


def test_a_result_that_outgrows_its_buffer_is_found_again(pre_process: str) -> None:
    options = {"pre_process": pre_process, "max_partition": 1, "n_bits": 20, "n_hashes": 1}
    on_cpu, on_gpu = both(drawn(2000, 60, 4, seed=3), None, options)
    (segment,) = on_gpu.segments()
    borrowed = segment.workspaces.borrow()
    ((_, space),) = borrowed
    space.room.update(forwarded=1, pairs=1)
    space.room_of_few = 1
    segment.workspaces.give_back(borrowed)
    events = drawn(400, 60, 30, seed=4)
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work
    is_few = small_batch_gpu.MOST_EVENTS > 0 and pre_process == "gpu"
    assert (space.room_of_few > 1) == is_few
    assert (space.room["pairs"] > 1) == (not is_few)
    assert (space.room["forwarded"] > 1) == (pre_process == "gpu" and not is_few)


def test_a_set_may_have_many_keys_and_a_slot_many_sets(pre_process: str) -> None:
    rows = [["a"]] * 1000 + [["a", "b"]] * 33 + [[name] for name in "bcdefghij"] + [[]] * 70
    options = {"pre_process": pre_process, "n_bits": 3, "n_hashes": 1}
    on_cpu, on_gpu = both(rows, None, options)
    events = [["a", "b"], ["b"], list("cdefghij"), []] * 20
    assert counted(on_gpu.match(events)) == counted(on_cpu.match(events))


def test_threads_share_the_table_and_not_their_buffers(pre_process: str) -> None:
    rows, events = drawn(5000, 300, 5, seed=5), drawn(3000, 300, 9, seed=6)
    on_cpu, on_gpu = both(rows, None, {"pre_process": pre_process})
    assert counted(on_gpu.match(events, threads=4)) == counted(on_cpu.match(events))


@pytest.mark.parametrize("n_bits", [2000, 5000, 13_000])
def test_signatures_may_be_long_and_few_events_forwarded_at_a_time(
    pre_process: str, n_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagmatch_gpu, "_MOST_FORWARDED", 500)
    rows, events = drawn(2000, 300, 5, seed=7), drawn(500, 300, 9, seed=8)
    on_cpu, on_gpu = both(rows, None, {"pre_process": pre_process, "n_bits": n_bits})
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work


def test_much_for_few_events_is_found_the_way_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in ("MOST_RESULTS", "MOST_SORTED"):
        monkeypatch.setattr(small_batch_gpu, most, 20_000)
    for algorithm in ("rarest", "tagmatch"):
        rows = [["a", str(number)] for number in range(300)] + [["a"]] * 50
        on_cpu, on_gpu = (build(rows, None, algorithm, {}, device=name) for name in ("cpu", "gpu"))
        events = [["a", *map(str, range(300))]] * 100 + [["a"]]
        wanted, found = on_cpu.match(events), on_gpu.match(events)
        assert counted(found) == counted(wanted)
        assert found.work == wanted.work
        assert counted(on_gpu.match([["a", "7"]])) == counted(on_cpu.match([["a", "7"]]))


def test_more_sets_than_pairs_have_room(pre_process: str) -> None:
    rows = [[str(number)] for number in range(400)]
    options = {"pre_process": pre_process, "n_bits": 3, "n_hashes": 1, "exact": False}
    on_cpu, on_gpu = both(rows, None, options)
    (segment,) = on_gpu.segments()
    borrowed = segment.workspaces.borrow()
    ((_, space),) = borrowed
    space.room_of_few = 100  # of 30 events, with up to three slots each
    segment.workspaces.give_back(borrowed)
    events = [[str(number)] for number in range(30)]
    assert counted(on_gpu.match(events)) == counted(on_cpu.match(events))


def test_some_rows_of_a_batch_are_matched_without_the_others(pre_process: str) -> None:
    _, on_gpu = both(drawn(2000, 60, 4, seed=9), None, {"pre_process": pre_process})
    check_some_rows(tagmatch_gpu, on_gpu, drawn(90, 60, 9, seed=10))
