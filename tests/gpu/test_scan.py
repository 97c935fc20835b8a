"""Tests of the scan of signatures on a card; tests/conformance has the tests of all algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchyard.engines.tags.algorithms.scan import gpu as scan_gpu
from tests.cases import build, counted
from tests.gpu.test_rarest import drawn

pytestmark = pytest.mark.gpu


def both(rows: list[list[str]], keys: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The same index on the CPU and on a card."""
    return tuple(build(rows, keys, "scan", options, device=name) for name in ("cpu", "gpu"))  # type: ignore[return-value]


@pytest.mark.parametrize("batch", [1, 7, 256, 1000])
@pytest.mark.parametrize("n_bits", [40, 192, 500])
def test_it_finds_what_the_cpu_finds_and_looks_at_as_much(batch: int, n_bits: int) -> None:
    rows, events = drawn(1500, 300, 6, seed=1), drawn(300, 330, 20, seed=2)
    on_cpu, on_gpu = both(rows, np.arange(1500) % 900, {"batch": batch, "n_bits": n_bits})
    wanted, found = on_cpu.match(events), on_gpu.match(events)
    assert counted(found) == counted(wanted)
    assert found.work == wanted.work
    assert found.to_lists() == on_gpu.match(events).to_lists()


@pytest.mark.parametrize("n_rows", [0, 1, 255, 256, 1023, 1024, 1025])
def test_the_last_block_may_be_full_or_not(n_rows: int) -> None:
    rows = [[str(number)] for number in range(n_rows)]
    _, on_gpu = both(rows, None, {})
    events = [[str(n_rows - 1)], [str(number) for number in range(n_rows)], []]
    assert [sorted(one) for one in on_gpu.match(events)][1] == list(range(n_rows))


def test_an_event_with_every_bit_finds_only_what_there_is() -> None:
    rows = [[str(number)] for number in range(50)]
    on_cpu, on_gpu = both(rows, None, {"n_bits": 64, "n_hashes": 7})
    event = [str(number) for number in range(2000)]
    assert counted(on_gpu.match([event])) == counted(on_cpu.match([event]))


def test_a_result_that_outgrows_its_buffer_is_found_again() -> None:
    options = {"n_bits": 20, "n_hashes": 1, "batch": 50}
    on_cpu, on_gpu = both(drawn(900, 60, 4, seed=3), None, options)
    (segment,) = on_gpu.segments()
    borrowed = segment.workspaces.borrow()
    ((_, space),) = borrowed
    space.room.update(pairs=1)
    segment.workspaces.give_back(borrowed)
    events = drawn(200, 60, 30, seed=4)
    assert counted(on_gpu.match(events)) == counted(on_cpu.match(events))
    assert space.room["pairs"] > 1


def test_long_signatures_are_few_in_a_thread_and_in_shared_memory() -> None:
    assert scan_gpu._constants(79)["SLOTS"] == 1
    on_cpu, on_gpu = both(drawn(500, 300, 5, seed=7), None, {"n_bits": 5000})
    events = drawn(200, 300, 9, seed=8)
    assert counted(on_gpu.match(events)) == counted(on_cpu.match(events))
