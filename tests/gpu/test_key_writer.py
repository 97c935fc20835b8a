"""Keys that a card writes for the host, and who writes which."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.gpu import key_writer_gpu
from matchyard.gpu.key_writer_gpu import KeyWriter, rates
from matchyard.gpu.pinned import pinned
from matchyard.kernels import key_table
from matchyard.parts import Hits
from tests.cases import build, counted

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The card writes all keys, however few they are."""
    monkeypatch.setattr(key_writer_gpu, "_LEAST", 1)
    monkeypatch.setattr(rates, "takes_bus", lambda n_bytes: True)
    monkeypatch.setattr(rates, "leave_bus", lambda n_bytes: None)


def tables(n_rows: int, wide: bool) -> Any:
    """A key table with rows of very different lengths."""
    rng = np.random.default_rng(n_rows)
    lengths = rng.integers(1, 40, n_rows)
    lengths[:: max(1, n_rows // 7)] = 50_000
    key_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    keys = rng.integers(0, 1 << (40 if wide else 30), key_start[-1])
    empty = np.empty(0, np.int64)
    return key_table.KeyTable(key_start, key_table.narrowed(keys).view(np.int32), empty, empty)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("n_rows", [1, 5, 3000])
def test_it_writes_what_the_host_writes(
    wide: bool, kind: Any, n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wide and kind is np.int32:
        pytest.skip("wide keys do not become narrow")
    monkeypatch.setattr(key_writer_gpu, "_STEP", 100_001)
    table = tables(n_rows, wide)
    keys = key_table.keys_of(table)
    rng = np.random.default_rng(1)
    n_hits = rng.integers(0, 90, 40)
    n_hits[[0, 5, 6, 39]] = 0
    start = np.concatenate([[0], np.cumsum(n_hits)])
    rows = rng.integers(0, n_rows, start[-1]).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(np.diff(table.key_start)[rows])])
    hits = Hits(start, rows, table, ends[start])
    writer = KeyWriter(table.key_start, keys)
    for first, last in ((0, 40), (3, 29), (5, 6), (7, 8)):
        n_keys = int(hits.key_start[last] - hits.key_start[first])
        found = writer.room(max(1, n_keys), kind)
        assert found is not None
        assert not n_keys or writer.write(hits, first, last, found[:n_keys])
        wanted = np.empty(n_keys, kind)
        key_table.fill(table, rows, int(start[first]), int(start[last]), wanted)
        assert found.dtype == kind
        assert (found[:n_keys] == wanted).all()


def dense(device: str) -> my.TagIndex:
    rows = [["a"]] * 700 + [["a", "b"]] * 500 + [["b"]] * 90 + [["c"]] * 40
    return build(rows, np.arange(len(rows)) % 800, "rarest", {}, device=device)


EVENTS = [["a", "b"], ["b", "c"], ["c"], [], ["a"]] * 300


@pytest.mark.parametrize("threads", [1, 4])
def test_all_ways_to_read_give_the_same_keys(threads: int) -> None:
    wanted, found = (dense(name).match(EVENTS, threads) for name in ("cpu", "gpu"))
    assert isinstance(found.parts[0].found, Hits)
    assert found.parts[0].writer is not None
    assert counted(found) == counted(wanted)
    assert found.to_arrays() == found.to_arrays(narrow=True).cast(found.to_arrays().type)
    assert [sorted(keys) for keys in found] == [sorted(keys) for keys in wanted]
    assert sorted(found[7]) == sorted(wanted[7])
    starts = found.event_start
    assert sorted(found.keys[starts[5] : starts[6]]) == sorted(wanted[5])
    assert pinned.has(found.keys)


def test_threads_read_while_others_match() -> None:
    index, wanted = dense("gpu"), counted(dense("cpu").match(EVENTS))
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: counted(index.match(EVENTS)), range(40)):
            assert found == wanted


def test_results_outlive_their_index_and_its_card() -> None:
    index = dense("gpu")
    found, wanted = index.match(EVENTS), counted(dense("cpu").match(EVENTS))
    index.move("cpu")
    gc.collect()
    assert counted(found) == wanted
    index = dense("gpu")
    found = index.match(EVENTS)
    del index
    gc.collect()
    assert counted(found) == wanted


def test_a_forked_child_reads_by_itself() -> None:
    found = dense("gpu").match(EVENTS)
    wanted = counted(found)
    child = os.fork()
    if not child:
        os._exit(0 if counted(found) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_host_writes_if_the_card_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise my.DeviceError("planted")

    found, wanted = dense("gpu").match(EVENTS), counted(dense("cpu").match(EVENTS))
    monkeypatch.setattr(key_writer_gpu._OnCard, "_write", fail)
    assert counted(found) == wanted


def test_pinned_memory_is_lent_again_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned.forget()
    monkeypatch.setattr(pinned, "most", 8 << 20)
    one = pinned.lend(1 << 20, np.int32)
    assert one is not None
    assert pinned.has(one[5:9])
    other = pinned.lend(1 << 20, np.int32)
    assert other is not None
    assert pinned.lend(1, np.int8) is None
    address = one.ctypes.data
    part = one[100:200]
    del one
    gc.collect()
    assert pinned.lend(1 << 20, np.int32) is None  # a view of it lives
    del part
    gc.collect()
    again = pinned.lend(1 << 20, np.int32)
    assert again is not None
    assert again.ctypes.data == address
    found = dense("gpu").match(EVENTS)  # without pinned memory, by the host
    assert counted(found) == counted(dense("cpu").match(EVENTS))
