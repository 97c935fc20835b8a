"""An error on a card names the affected events, and the index can continue on the CPU."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import matchyard as my
from matchyard.gpu.lanes import Lane

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

FAULT = """
import cupy
import matchyard as my
from matchyard.engines.tags.algorithms.rarest import gpu as rarest_gpu

index = my.TagIndex(device="gpu").add("jazz", key=1).consolidate()
source = 'extern "C" __global__ void count() { asm("trap;"); }'
rarest_gpu.kernel = lambda *which: cupy.RawKernel(source, "count")
for _ in range(2):
    try:
        index.match(["jazz", "rock"])
    except my.DeviceError as error:
        print(error)
index.add("rock", key=2).add("blues", key=3).remove(3)
try:
    index.consolidate()
except my.DeviceError as error:
    print(error)
index.move("cpu")
print(index.match(["jazz", "rock"]).to_lists())
index.consolidate()
print(index.match(["jazz", "rock"]).to_lists(), flush=True)
import os
os._exit(0)  # CUDA does not end in good order after a fault
"""


def test_a_fault_of_a_kernel_names_the_events_and_leaves_the_index() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULT], check=False, capture_output=True, text=True
    )
    said = done.stdout.splitlines()
    assert len(said) == 5, done.stderr
    assert all(line.startswith("events 0 to 1: the GPU failed at") for line in said[:2])
    assert said[2].startswith("the GPU failed at")
    assert said[3:] == ["[[1], []]", "[[1], [2]]"]


def test_an_exhausted_card_names_the_events_and_leaves_the_index() -> None:
    tags = [f"t{number}" for number in range(1000)]
    index = my.TagIndex(device="gpu").add_many([[tag] for tag in tags], range(1000)).consolidate()
    assert len(index.match([tags])[0]) == 1000
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (1 << 20))
    try:
        with pytest.raises(my.DeviceError, match="events 0 to 999: the GPU has too little memory"):
            index.match([tags] * 1000)
        assert index.match([["b"]])[0] == []  # what fits still goes
        index.move("cpu")
        assert len(index.match([tags] * 2)[1]) == 1000
    finally:
        pool.set_limit(size=0)


def test_a_card_that_is_gone_names_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    index = my.TagIndex(device="gpu").add("jazz", key=1).consolidate()

    def gone(*args: Any, **more: Any) -> None:
        raise cupy.cuda.runtime.CUDARuntimeError(46)

    with index.stream(max_batch=2, max_delay_ms=50) as stream:
        monkeypatch.setattr(Lane, "launch", gone)
        futures = [stream.submit("jazz") for _ in range(2)]
        for future in futures:
            with pytest.raises(my.DeviceError, match="events 0 to 1: the GPU failed at matching"):
                future.result(timeout=60)
        index.move("cpu")
        assert [stream.submit("jazz") for _ in range(2)][1].result(timeout=60) == [1]
