"""A router on the card finds the interfaces that the CPU finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.tags.algorithms.tagmatch import gpu as tagmatch_gpu
from tests.cases import build
from tests.gpu.test_rarest import drawn

pytestmark = pytest.mark.gpu
every_algorithm = pytest.mark.parametrize("algorithm", ["rarest", "tagmatch", "scan"])
N_TREES, N_INTERFACES = 3, 5


def routes(rows: list[list[str]], seed: int, algorithm: str, **more: Any) -> tuple[Any, Any]:
    """The same index on the CPU and on a card, with keys of a few trees and interfaces."""
    rng = np.random.default_rng(seed)
    trees, ways = rng.integers(0, N_TREES, len(rows)), rng.integers(0, N_INTERFACES, len(rows))
    ways[ways == 4] = (1 << 32) - 1
    keys = my.interface_key(trees, ways)
    return tuple(  # type: ignore[return-value]
        build(rows, keys, algorithm, {}, device=name, **more) for name in ("cpu", "gpu")
    )


def forwarded(index: Any, events: list[list[str]], threads: int = 1) -> list[list[int]]:
    """The next interfaces of each event, which arrives on a given tree and interface."""
    numbers = np.arange(len(events))
    trees, incoming = numbers % (N_TREES + 1), numbers % N_INTERFACES
    found = index.forward(events, trees, incoming, threads)
    assert found.keys.dtype == np.int64
    assert all(len(set(one)) == len(one) for one in found)
    return [sorted(one) for one in found]


@every_algorithm
def test_interfaces_are_those_that_the_cpu_finds(algorithm: str) -> None:
    rows = [*drawn(1500, 60, 4, seed=1), *[["1"]] * 100, *[["2", "3"]] * 9, *[[]] * 8]
    on_cpu, on_gpu = routes(rows, 2, algorithm)
    events = drawn(300, 70, 12, seed=3)
    wanted = forwarded(on_cpu, events)
    assert forwarded(on_gpu, events) == wanted
    assert max(map(len, wanted)) == N_INTERFACES
    assert [] in wanted
    assert forwarded(on_gpu, events, threads=3) == wanted


@every_algorithm
def test_several_segments_and_removals_make_no_difference(algorithm: str) -> None:
    on_cpu, on_gpu = routes(drawn(200, 30, 3, seed=4), 5, algorithm, live=True)
    events = drawn(100, 30, 8, seed=6)
    for index in (on_cpu, on_gpu):
        for way in (2, 77):
            index.add("1", key=my.interface_key(0, way))
    assert forwarded(on_gpu, events) == forwarded(on_cpu, events)  # with recent additions
    on_gpu._state.builds.merge()
    assert len(on_gpu.segments()) > 1
    assert forwarded(on_gpu, events) == forwarded(on_cpu, events)
    for index in (on_cpu, on_gpu):
        index.remove(my.interface_key(0, 2)).remove(my.interface_key(1, 3))
    assert forwarded(on_gpu, events) == forwarded(on_cpu, events)


def test_only_interfaces_come_back() -> None:
    _, on_gpu = routes([["a"]] * 1000, 7, "tagmatch")
    (segment,) = on_gpu.segments()
    borrowed = segment.workspaces.borrow()
    ((_, space),) = borrowed
    space.room["interfaces"] = 1  # it is found to be too small
    segment.workspaces.give_back(borrowed)
    found = on_gpu.forward([["a"]] * 20, [0] * 20, [1] * 20)
    assert [sorted(one) for one in found] == [[0, 2, 3, (1 << 32) - 1]] * 20
    assert space.room["interfaces"] > 1
    assert found.work.matches == 80


def test_few_events_are_forwarded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagmatch_gpu, "_MOST_FORWARDED", 50)
    on_cpu, on_gpu = routes(drawn(500, 60, 4, seed=8), 9, "tagmatch")
    events = drawn(90, 70, 12, seed=10)
    assert forwarded(on_gpu, events) == forwarded(on_cpu, events)


def test_events_that_do_not_fit_are_forwarded_by_the_cpu() -> None:
    on_cpu, on_gpu = routes(drawn(300, 2000, 3, seed=11), 12, "rarest")
    events = [[str(tag) for tag in range(2000)], ["1"], [str(tag) for tag in range(1500)], []]
    assert forwarded(on_gpu, events) == forwarded(on_cpu, events)
    assert len(forwarded(on_gpu, events)[0]) > 1
