"""What an algorithm may have beyond the contract is asked for where it is there, and done without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard import storage
from matchyard.engines.tags.algorithms.rarest import rarest
from matchyard.kernels.strings import Interner, Names
from tests.cases import build

ROWS: list[Any] = ["a", "a b", "a", "b", [], "a b"]
KEYS = [1, 1, 2, 1, 1, 2]


def without_locate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(rarest, "locate")


@pytest.mark.parametrize("shard_size", [100, 2])
@pytest.mark.parametrize("gone", [("a", 1), ("a b", 2), ([], 1), ("a", 7), ("zebra", 1), ([], 2)])
def test_a_pair_is_found_by_its_key_where_rows_cannot_be_located(
    gone: tuple[Any, int], shard_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(ROWS, KEYS, live=True, shard_size=shard_size)
    want = build(ROWS, KEYS, live=True).remove(gone[1], gone[0])
    without_locate(monkeypatch)
    index.remove(gone[1], gone[0])
    asked = ["a", "b", "a b", ""]
    assert [Counter(keys) for keys in index.match(asked)] == [
        Counter(keys) for keys in want.match(asked)
    ]
    assert len(index) == len(want) == sum(row != gone for row in zip(ROWS, KEYS, strict=True))


def test_many_pairs_are_found_by_their_keys_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    without_locate(monkeypatch)
    index = build(["a"] * 100 + ["b"] * 100, [*range(100)] * 2, live=True)
    for key in range(0, 100, 2):
        index.remove(key, "a")
    assert sorted(index.match(["a b"])[0]) == sorted([*range(100), *range(1, 100, 2)])


def test_unique_matches_come_from_the_algorithm_until_something_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def match_unique(table: Any, batch: Any, workspace: Any, options: Any) -> Any:
        asked.append(batch.n_rows)
        return rarest.match(table, batch, workspace, options).unique()

    monkeypatch.setattr(rarest, "match_unique", match_unique, raising=False)
    index = build(ROWS, KEYS, live=True)
    assert [sorted(keys) for keys in index.match_unique(["a b", ""])] == [[1, 2], [1]]
    assert asked == [2]
    assert sorted(index.match(["a b"])[0]) == sorted(KEYS)
    assert asked == [2]
    index.add_many(["b"], [9])  # two segments, each of which may know a key that the other has too
    assert sorted(index.match_unique(["a b"])[0]) == [1, 2, 9]
    assert asked == [2, 1, 1]
    assert sorted(index.remove(2).match_unique(["a b"])[0]) == [1, 9]  # all of a key: no matter
    assert asked == [2, 1, 1, 1, 1]
    assert sorted(index.remove(9, "b").match_unique(["a b"])[0]) == [1]
    assert asked == [2, 1, 1, 1, 1, 1]


def test_what_an_algorithm_cannot_hold_is_refused_when_it_is_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def accept(column: Any, options: Any) -> None:
        if (np.diff(column.row_start) > 1).any():
            raise my.UsageError("one tag each")

    monkeypatch.setattr(rarest, "accept", accept, raising=False)
    index = my.TagIndex().add("a", 1)
    with pytest.raises(my.UsageError, match="one tag each"):
        index.add("a b", "not even its key counts")
    with pytest.raises(my.UsageError, match="one tag each"):
        index.add_many(["a", "a b"], [3, 4])
    assert index.info()["staged"] == 1
    assert sorted(index.add("b", 5).consolidate().match(["a b"])[0]) == [1, 5]


class Vocabulary(NamedTuple):
    """As an engine may have it: names, and arrays about them."""

    names: Names
    texts: Names
    kind: np.ndarray
    nothing: np.ndarray


def test_a_vocabulary_of_several_parts_comes_back_from_disk(tmp_path: Path) -> None:
    names, texts = Interner(), Interner()
    names.intern_arrow(pa.array(["temp", "área"]))
    whole = Vocabulary(names.names(), texts.names(), np.arange(3, dtype=np.uint8), np.empty((0, 2)))
    files = storage.write_vocabulary(tmp_path, "vocabulary", whole)
    assert sorted(file.name for file in files) == [
        "vocabulary/kind.npy",
        "vocabulary/names.arrow",
        "vocabulary/names.slots.npy",
        "vocabulary/nothing.npy",
        "vocabulary/texts.arrow",
        "vocabulary/texts.slots.npy",
    ]
    mapped = storage.map_vocabulary(tmp_path, "vocabulary", [file.name for file in files])
    found = storage.restored(mapped, Vocabulary)
    assert [found.names.name(i) for i in range(found.names.n_names)] == ["temp", "área"]
    assert found.texts.n_names == 0
    assert found.kind.tolist() == [0, 1, 2]
    assert found.nothing.shape == (0, 2)
    with pytest.raises(my.StorageError, match="fields"):
        storage.restored({"names": found.names}, Vocabulary)
    with pytest.raises(my.StorageError, match="fields"):
        storage.restored(mapped, Names)
