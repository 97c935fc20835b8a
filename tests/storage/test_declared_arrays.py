"""Arrays of a saved index are compared with what their table declares, always or with verify=True."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard.kernels.inspection import Inspection
from tests.cases import staged
from tests.torture.rewriting import (
    array_bytes,
    copy,
    version_of,
    write_file,
)

EVENTS = [["a", "b", "c"], ["b"], []]
ROWS = [["a"], ["a", "b"], ["b"], [], ["c", "a"]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An index of tags with integer keys, and one with string keys."""
    folder = tmp_path_factory.mktemp("built")
    for name, keys in (("int", [1, 2, 3, 4, 5]), ("str", list("vwxyz"))):
        my.TagIndex().add_many(ROWS, keys).save(folder / name)
    return {name: folder / name for name in ("int", "str")}


@pytest.fixture
def saved(built: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to be forged."""
    return copy(built["int"], tmp_path / "an.index")


def forge_array(path: Path, name: str, change: Any) -> None:
    file = f"shards/0000/{name}.npy"
    write_file(path, file, array_bytes(np.asarray(change(np.load(version_of(path) / file)))))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("key_start", lambda a: a * 2**24), ("keys", lambda a: a[:3]), ("keys", lambda a: a.astype(float)),
        ("keys", lambda a: a.astype(complex)), ("keys", lambda a: a.reshape(-1, 1)), ("keys", lambda a: a[0]),
        ("keys", lambda a: a.astype(np.int16)), ("keys", lambda a: a.astype(">i8")), ("id_start", lambda a: a[:-1]),
        ("posting_start", lambda a: a + 1), ("signatures", lambda a: a[:-1]), ("removed_keys", lambda a: np.zeros(4, np.int64)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verify", [True, False])
def test_arrays_that_do_not_belong_together_are_refused_always(
    saved: Path, name: str, change: Any, verify: bool
) -> None:
    forge_array(saved, name, change)
    with pytest.raises(my.StorageError, match=r"an\.index/versions/0001/shards/0000/"):
        my.open(saved, verify=verify)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("key_start", lambda a: np.append(np.append(a[:1], a[1:-1][::-1]), a[-1:])),
        ("ids", lambda a: a + 100), ("ids", lambda a: a - 100),
        ("removed_keys", lambda a: np.ones(9, np.int64)), ("removed_at", lambda a: np.ones(3, np.int64)),
    ],
)  # fmt: skip
def test_values_that_are_out_of_range_are_refused_where_it_is_asked_for(
    saved: Path, name: str, change: Any
) -> None:
    forge_array(saved, name, change)
    with pytest.raises(my.StorageError, match=name):
        my.open(saved, verify=True)


def test_two_ways_to_one_posting_are_refused(tmp_path: Path) -> None:
    """The kernel has room for one visit of an event: more wrote beyond an array."""
    index = my.PredicateIndex("tiles")
    for number in range(20):
        index.add(f"a{number % 5} > {number}", number)
    index.save(tmp_path / "an.index")
    forge_array(tmp_path / "an.index", "slot_posting", np.zeros_like)
    with pytest.raises(my.StorageError, match="slot_posting has a value twice"):
        my.open(tmp_path / "an.index", verify=True)


def test_a_hash_table_without_a_free_slot_is_refused(saved: Path) -> None:
    slots = np.load(version_of(saved) / "vocabulary.slots.npy")
    slots[slots == 0] = 1
    write_file(saved, "vocabulary.slots.npy", array_bytes(slots))
    with pytest.raises(my.StorageError, match=r"slots has \d+ slots for"):
        my.open(saved, verify=True)


@pytest.mark.parametrize("words", [pa.array([1, 2, 3]), pa.array([None, "a", "b"])])
def test_names_that_are_no_strings_are_refused(
    built: dict[str, Path], tmp_path: Path, words: pa.Array
) -> None:
    path = copy(built["str"], tmp_path / "an.index")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("name", words.type)])) as writer:
        writer.write_table(pa.table({"name": words}))
    write_file(path, "keys.arrow", sink.getvalue().to_pybytes())
    with pytest.raises(my.StorageError, match=r"keys\.arrow is not a file of names"):
        my.open(path)


def test_string_keys_beyond_the_names_are_refused(built: dict[str, Path], tmp_path: Path) -> None:
    path = copy(built["str"], tmp_path / "an.index")
    forge_array(path, "keys", lambda keys: keys + 5)
    with pytest.raises(my.StorageError, match="keys has values from"):
        my.open(path, verify=True)


def test_keys_of_32_bits_are_read(saved: Path) -> None:
    before = my.open(saved).match(EVENTS).to_lists()
    forge_array(saved, "keys", lambda keys: keys.astype(np.int32))
    index = my.open(saved, verify=True)
    assert index.match(EVENTS).to_lists() == before
    assert index.add("new", 2**40).consolidate().match(["new"])[0] == [4, 2**40]


def test_every_array_of_every_table_is_looked_at() -> None:
    class Table(NamedTuple):
        one: np.ndarray[Any, np.dtype[np.int32]]
        other: np.ndarray[Any, np.dtype[np.int64]]

    look = Inspection(Table(np.zeros(2, np.int32), np.zeros(3, np.int64)), "t.", True)
    look.length("one")
    with pytest.raises(AssertionError, match="other"):
        look.finish()
    with pytest.raises(my.StorageError, match=r"t\.other has values of int32, expected int64"):
        Inspection(Table(np.zeros(2, np.int32), np.zeros(3, np.int32)), "t.", True)


def test_routes_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    plan, path = shards.Plan(), tmp_path / "an.index"
    for routes in (np.array([7, 0, 0, 0], np.int32), np.zeros(2, np.int32), np.zeros(4, np.int64)):
        with shards.new_version(path) as folder:
            [parts], vocabulary, _ = staged(folder, plan, (ROWS, [1, 2, 3, 4, 5]))
            table = shards.compiled(folder, parts, vocabulary, None, plan)
            written = shards.write_names(folder, vocabulary)
            written += shards.write_routes(folder, routes)
            for number in range(2):
                written += shards.write_table(folder, number, table)
            version = shards.publish(path, folder, written, plan, [2])
        with pytest.raises(my.StorageError, match=r"routes\.npy"):
            shards.Routes(path, version)
