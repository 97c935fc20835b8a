"""Tests of the walk of postings on a card; tests/conformance has the tests of all algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard import parts
from matchyard.engines.tags.algorithms.rarest import gpu as rarest_gpu
from matchyard.engines.tags.algorithms.shared import small_batch_gpu
from tests.cases import build, counted

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True, params=["few", "many"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Test both paths: of small batches, and of many events."""
    if request.param == "many":
        monkeypatch.setattr(small_batch_gpu, "MOST_EVENTS", 0)
    way: str = request.param
    return way


def both(rows: list[list[str]], keys: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The same index on the CPU and on a card."""
    return tuple(build(rows, keys, "rarest", options, device=name) for name in ("cpu", "gpu"))  # type: ignore[return-value]


def drawn(n_rows: int, n_tags: int, most: int, seed: int) -> list[list[str]]:
    """Random sets of tags; low numbers are the most frequent tags."""
    rng = np.random.default_rng(seed)
    return [
        [str(tag) for tag in (n_tags * rng.random(rng.integers(0, most + 1)) ** 3).astype(int)]
        for _ in range(n_rows)
    ]


@pytest.mark.parametrize("leaf", [1, 2, 64])
@pytest.mark.parametrize("most", [3, 30, 60])
def test_it_finds_what_the_cpu_finds_and_looks_at_as_much(leaf: int, most: int) -> None:
    rows, events = drawn(5000, 300, 6, seed=1), drawn(700, 330, most, seed=2)
    on_cpu, on_gpu = both(rows, np.arange(5000) % 3000, {"leaf": leaf})
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work


@pytest.mark.parametrize("leaf", [1, 64])
def test_events_that_do_not_fit_are_left_to_the_cpu(leaf: int) -> None:
    rows = drawn(3000, 2000, 4, seed=3)
    rows += [["0"]] * 1500 + [[str(a), str(b)] for a in range(60) for b in range(a)]
    events = [[str(tag) for tag in range(2000)], ["0", "1"], [str(tag) for tag in range(300)], []]
    on_cpu, on_gpu = both(rows, None, {"leaf": leaf})
    space = rarest_gpu.workspace(
        on_gpu.segments()[0].tables[0], on_gpu.segments()[0].settings.options
    )
    batch = on_gpu.segments()[0].encode(
        on_gpu.segments()[0].settings.engine.encoder.column(
            events, on_gpu.segments()[0].settings.input_options
        )
    )
    with space.lane.stream:
        assert rarest_gpu._match(batch, space)[2].tolist()[0] == 1
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work


def test_a_row_may_have_many_keys() -> None:
    rows = [["a"]] * 1000 + [["a", "b"]] * 33 + [["b"]] * 5 + [["c"]] + [[]] * 70
    on_cpu, on_gpu = both(rows, None, {})
    events = [["a", "b"], ["b"], ["c"], []] * 20
    assert counted(on_gpu.match(events)) == counted(on_cpu.match(events))


@pytest.mark.parametrize("limit", [0, 4, 1 << 40])
def test_rows_travel_instead_of_keys_if_they_have_many(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rarest_gpu, parts):
        monkeypatch.setattr(module, "WRITTEN_LATER", limit)
    rows = drawn(200, 20, 3, seed=4) * 40
    keys = my.interface_key(np.arange(8000) % 3, np.arange(8000) % 50)
    on_cpu, on_gpu = both(rows, keys, {})
    events = [*drawn(300, 20, 12, seed=5), [str(tag) for tag in range(1500)]]
    found, wanted = on_gpu.match(events), on_cpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work
    ((_, space),) = on_gpu.segments()[0].workspaces.borrow()
    assert space.returns_rows == (limit < 1 << 40)
    assert counted(on_gpu.match_unique(events)) == counted(on_cpu.match_unique(events))
    way = np.arange(len(events)) % 3, np.arange(len(events)) % 7
    assert counted(on_gpu.forward(events, *way)) == counted(on_cpu.forward(events, *way))
    gone = [one.remove(int(keys[1])).consolidate() for one in (on_gpu, on_cpu)]
    assert counted(gone[0].match(events)) == counted(gone[1].match(events))


def test_a_small_result_after_a_large_one_is_right() -> None:
    _, on_gpu = both([["a"]] * 100_000 + [["b"]], None, {})
    assert len(on_gpu.match([["a"]] * 50)[49]) == 100_000
    assert on_gpu.match([["b"]])[0] == [100_000]
    assert sorted(on_gpu.match([["b"], ["a", "b"]])[1]) == list(range(100_001))


def test_a_result_that_outgrows_its_room_is_found_again(way: str) -> None:
    on_cpu, on_gpu = both(drawn(2000, 60, 4, seed=11), None, {})
    (segment,) = on_gpu.segments()
    borrowed = segment.workspaces.borrow()
    ((_, space),) = borrowed
    space.room_of_few = 100
    segment.workspaces.give_back(borrowed)
    events = drawn(400, 60, 20, seed=12)
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work
    assert (space.room_of_few > 100) == (way == "few")
    assert counted(on_gpu.match(events[:9])) == counted(wanted)[:9]


def check_some_rows(launcher: Any, index: Any, events: list[list[str]]) -> None:
    """Check that some rows of a batch can be matched without the others."""
    (segment,) = index.segments()
    settings, table = segment.settings, segment.tables[0]
    batch = segment.encode(settings.engine.encoder.column(events, settings.input_options))
    space = launcher.workspace(table, settings.options)
    whole = launcher.match(table, batch, space, settings.options)
    some = launcher.match(table, batch.rows(30, 50), space, settings.options)
    start = whole.event_start[30:51]
    assert some.event_start.tolist() == (start - start[0]).tolist()
    assert some.keys.tolist() == whole.keys[start[0] : start[-1]].tolist()


def test_some_rows_of_a_batch_are_matched_without_the_others() -> None:
    _, on_gpu = both(drawn(2000, 60, 4, seed=13), None, {})
    check_some_rows(rarest_gpu, on_gpu, drawn(90, 60, 9, seed=14))


def test_threads_share_the_table_and_not_their_buffers() -> None:
    rows, events = drawn(5000, 300, 5, seed=4), drawn(3000, 300, 9, seed=5)
    on_cpu, on_gpu = both(rows, None, {})
    assert counted(on_gpu.match(events, threads=4)) == counted(on_cpu.match(events))


def test_an_index_moves_between_devices() -> None:
    index = my.TagIndex().add("jazz", key=1).consolidate()
    assert index.move("gpu").device == "gpu"
    assert index.match(["jazz oslo"])[0] == [1]
    index.remove(1).add("oslo", key=2).consolidate()
    assert index.move("cpu").match(["jazz oslo"])[0] == [2]


def test_a_leaf_may_be_longer_than_any_table() -> None:
    on_cpu, on_gpu = both(drawn(300, 30, 4, seed=9), None, {"leaf": 1 << 40})
    events = drawn(40, 30, 8, seed=10)
    assert counted(on_gpu.match(events)) == counted(on_cpu.match(events))
