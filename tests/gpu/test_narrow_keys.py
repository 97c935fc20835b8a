"""Keys that fit into 32 bits are copied in 32 bits; only the parts of the matches show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.tags.algorithms.shared import small_batch_gpu
from tests.cases import build, counted

pytestmark = pytest.mark.gpu
every_algorithm = pytest.mark.parametrize("algorithm", ["rarest", "tagmatch", "scan"])
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
ROWS = [["a"], ["a", "b"], ["a"], ["c"], *[["b"]] * 40]
EVENTS = [["a", "b"], ["c"], ["a", "b", "c"], [], ["b"]]


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow no small batches: some algorithms look up their keys on the host."""
    monkeypatch.setattr(small_batch_gpu, "MOST_EVENTS", 0)


def keys_from(first: int, *others: int) -> list[int]:
    """Keys for ROWS that begin with the given ones."""
    return [first, *others, *range(100, 100 + len(ROWS) - 1 - len(others))]


def kinds(found: my.Matches) -> set[str]:
    """The types of the keys of all parts."""
    return {part.keys.dtype.name for part in found.parts}


@every_algorithm
@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (keys_from(HIGHEST, LOWEST), "int32"),
        (keys_from(-1, 0, -7), "int32"),
        (keys_from(HIGHEST + 1), "int64"),
        (keys_from(5, LOWEST - 1), "int64"),
        (keys_from(1 << 62, -1), "int64"),
    ],
)
def test_keys_are_narrow_where_all_of_them_fit(algorithm: str, keys: Any, kind: str) -> None:
    on_cpu, on_gpu = (build(ROWS, keys, algorithm, {}, device=name) for name in ("cpu", "gpu"))
    wanted, found = on_cpu.match(EVENTS), on_gpu.match(EVENTS)
    assert kinds(found) == {kind}
    assert counted(found) == counted(wanted)
    assert [sorted(one) for one in found] == [sorted(one) for one in wanted]
    assert found.keys.dtype == wanted.keys.dtype == np.dtype(kind)
    assert sorted(found.keys.tolist()) == sorted(wanted.keys.tolist())
    assert found.to_arrow().schema == wanted.to_arrow().schema
    assert found.to_arrays().type == wanted.to_arrays().type
    once = [sorted(one) for one in on_gpu.match_unique(EVENTS)]
    assert once == [sorted(one) for one in on_cpu.match_unique(EVENTS)]


@every_algorithm
@pytest.mark.parametrize("first", [7, HIGHEST + 1])
def test_removed_keys_are_taken_out_by_their_rows(algorithm: str, first: int) -> None:
    on_cpu, on_gpu = (
        build(ROWS, keys_from(first), algorithm, {}, device=name, live=True)
        for name in ("cpu", "gpu")
    )
    assert counted(on_gpu.remove(100).match(EVENTS)) == counted(on_cpu.remove(100).match(EVENTS))


@every_algorithm
@pytest.mark.parametrize("keys", [[1, 1 << 40, 3], [1 << 40, 1, 3], [-1, 2, 3]])
def test_segments_of_both_kinds_are_joined(algorithm: str, keys: list[int]) -> None:
    index = my.TagIndex(algorithm, device="gpu", live=True)
    index.add("jazz", key=keys[0]).consolidate()
    index.add("jazz", key=keys[1]).add("jazz", key=keys[2])
    found = index.match(["jazz", "oslo", "jazz oslo"])  # with recent additions
    assert [sorted(one) for one in found] == [sorted(keys), [], sorted(keys)]
    index._state.builds.merge()
    found = index.match(["jazz", "oslo", "jazz oslo"])
    assert len(index.segments()) > 1
    assert kinds(found) == {"int32" if max(keys) < HIGHEST else "int64"}
    assert [sorted(one) for one in found] == [sorted(keys), [], sorted(keys)]
    assert sorted(index.add("oslo", key=keys[0]).match_unique(["jazz oslo"])[0]) == sorted(keys)


@every_algorithm
def test_string_keys_are_narrow_and_named(algorithm: str) -> None:
    index = my.TagIndex(algorithm, device="gpu")
    index.add("jazz", key="ada").add("jazz oslo", key="bob").consolidate()
    found = index.match(["jazz oslo", "jazz"])
    assert kinds(found) == {"int32"}
    assert [sorted(one) for one in found] == [["ada", "bob"], ["ada"]]
    assert sorted(found.to_arrow()["key"].cast(pa.string()).to_pylist()) == ["ada", "ada", "bob"]
    assert sorted(found.to_arrays().to_pylist()[0]) == ["ada", "bob"]


@every_algorithm
def test_interfaces_of_the_first_tree_are_forwarded_to(algorithm: str) -> None:
    index = my.TagIndex(algorithm, device="gpu")
    for tree, interface in ((0, 3), (0, 4), (0, 4), (0, HIGHEST)):
        index.add("jazz", key=my.interface_key(tree, interface))
    found = index.consolidate().forward(["jazz"] * 3, [0, 0, 1], [3, 9, 3])
    assert [sorted(one) for one in found] == [[4, HIGHEST], [3, 4, HIGHEST], []]
