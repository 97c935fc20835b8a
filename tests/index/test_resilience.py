"""Failures, interrupts and odd beginnings: nothing that was staged or built is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.index import segment
from matchyard.kernels import csr


class Broken(Exception):
    pass


@pytest.mark.parametrize("live", [False, True])
def test_a_build_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    index = my.TagIndex(live=live).add("a", 1).add("a b", 2).consolidate()
    index.add("b", 3).remove(1).add("a", 4).add("a", 5).remove(5)

    def fail(*arguments: Any) -> None:
        raise Broken

    algorithm = index._settings.algorithm
    with monkeypatch.context() as broken:
        broken.setattr(algorithm, "compile", fail)
        with pytest.raises(Broken):
            index.consolidate()
        shown = [2, 3, 4] if live else [1, 2]  # few changes are shown without a build
        assert sorted(index._state.snapshot.match(column_of(["a b"]), 1)[0]) == shown
        index.add("b", 6)
    index.consolidate()
    assert sorted(index.match(["a b"])[0]) == [2, 3, 4, 6]


def test_a_first_build_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    index = my.TagIndex().add_many([["a"], ["c", "b"], ["b"]], [1, 2, 3])

    def fail(*arguments: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(index._settings.algorithm, "compile", fail)
        with pytest.raises(MemoryError):
            index.consolidate()
        index.add_many([["c"], ["z"]], [4, 5])
    index.consolidate()
    found = index.match(["a b c", "z"])
    assert sorted(found[0]) == [1, 2, 3, 4]
    assert found[1] == [5]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_build_that_fails_when_it_is_all_but_done_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    index = my.TagIndex().add("b", 1)
    if not is_first:
        index.consolidate()
    index.add_many([["a"], ["c", "b"]], [2, 3])

    def fail(*arguments: Any) -> None:
        raise my.DeviceError("the card is gone")

    with monkeypatch.context() as broken:
        broken.setattr(segment, "cut", fail)
        with pytest.raises(my.DeviceError):
            index.consolidate()
    index.consolidate()
    assert sorted(index.match(["a b c"])[0]) == [1, 2, 3]


def column_of(rows: list[str]) -> Any:
    from matchyard.engines.tags.encoder import Options, column

    return column(rows, Options())


def test_an_interrupt_between_kernels_leaves_names_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from matchyard.kernels import strings

    intern = strings._intern
    calls = []

    def interrupted(*arguments: Any) -> None:
        intern(*arguments)
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(strings, "_intern", interrupted)
    index, rows = my.TagIndex(), [[f"t{number}", f"u{number}"] for number in range(50)]
    with pytest.raises(KeyboardInterrupt):
        index.add_many(rows, range(50))
    index.add_many(rows, range(50)).add_many([["new"]], [99]).consolidate()
    assert [sorted(keys) for keys in index.match([*rows, ["new"]])] == [
        *([number] for number in range(50)),
        [99],
    ]


def test_a_build_runs_where_no_interrupt_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    index = my.TagIndex().add("a", 1)
    compile_now, threads = index._settings.algorithm.compile, []

    def compile_and_tell(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return compile_now(*arguments)

    monkeypatch.setattr(index._settings.algorithm, "compile", compile_and_tell)
    assert index.consolidate().match(["a"])[0] == [1]
    assert threads
    assert threading.main_thread() not in threads


def test_a_live_index_under_writes_can_be_saved(tmp_path: Path) -> None:
    index = my.TagIndex(live=True).add_many([[f"t{n}"] for n in range(2000)], range(2000))
    stop = threading.Event()

    def write() -> None:
        number = 10_000
        while not stop.is_set():
            index.add("x", number).match(["x"])
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            index.save(tmp_path / "a.index")
    finally:
        stop.set()
        writer.join()
    assert len(my.open(tmp_path / "a.index", verify=True)) >= 2000


def test_bare_signatures_that_start_with_zeros_take_more_of_their_kind(tmp_path: Path) -> None:
    index = my.TagIndex("tagmatch", {"exact": False}).add_many(np.zeros((1, 3), np.uint64), [0])
    index.save(tmp_path / "a.index")
    again = my.open(tmp_path / "a.index", verify=True).add_many(
        np.array([[4, 5, 6]], np.uint64), [9]
    )
    assert sorted(again.consolidate().match(np.full((1, 3), 7, np.uint64))[0]) == [0, 9]
    with pytest.raises(my.UsageError, match="cannot be explained"):
        again.explain("a", 9)


def test_packets_are_signed_as_subscriptions_are() -> None:
    index = my.TagIndex("tagmatch", {"exact": False}).add("jazz live", 1).consolidate()
    assert index.match(index.sign(["jazz live oslo", "jazz"])).to_lists() == [[1], []]
    with pytest.raises(my.UsageError, match="has no signatures"):
        my.TagIndex().sign(["jazz"])


def test_explain_owns_up_to_a_false_positive() -> None:
    index = my.TagIndex("scan", {"exact": False, "n_bits": 1, "n_hashes": 1}).add("jazz", 1)
    assert "a false positive" in index.consolidate().explain("rock", 1)


MANY = {
    "tags": [["a", "b"], ["b", "c"], ["d"], ["a", "c"]],
    "predicates": ["x in [1, 2] and y in [3, 4]", "y in [1, 9]", "x > 1", "z < 3"],
    "twigs": ["//a/b", "//b/c", "//d", "/a"],
}


@pytest.mark.parametrize(
    ("engine", "algorithm"), [(engine, name) for engine in MANY for name in my.algorithms(engine)]
)
def test_more_than_the_offsets_of_a_table_can_say_is_refused_and_stays_staged(
    engine: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = my.create(engine, algorithm).add_many(MANY[engine], range(4))
    with monkeypatch.context() as small:
        small.setattr(csr, "LARGEST_OFFSET", 3)
        with pytest.raises(my.UsageError, match="in one table: use a smaller shard_size"):
            index.consolidate()
    assert len(index.consolidate()) == 4


def test_keys_that_are_too_many_when_tables_are_joined_are_refused() -> None:
    (segment,) = my.TagIndex("rarest").add("a", 1).add("b", 2).consolidate().segments()
    (table,) = segment.tables
    long = table._replace(key_start=np.array([0, 1, 1 << 30], np.int32))
    with pytest.raises(my.UsageError, match="in one table"):
        segment.settings.algorithm.join([long, long], segment.settings.options)
