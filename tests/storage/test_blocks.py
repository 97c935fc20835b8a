"""Of a large index, each block is checked before its first use: what a match needs, and no more."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard.routing import Rib, Update
from matchyard.storage import blocks, files
from matchyard.storage.blocks import Blocks
from tests.golden import make
from tests.torture import flips, inputs
from tests.torture.arena import seeded
from tests.torture.rewriting import copy, manifest_of, version_of

N_ROWS = 70_000  # three groups of rows
DEFAULTS = {"tags": "rarest", "predicates": "auto", "twigs": "lazy_dfa"}


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with flips.small_blocks():
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each event {tN, uM} matches one row, and each tN has a hundred rows of its own."""
    path = tmp_path_factory.mktemp("built") / "an.index"
    rows = [[f"t{n % 700}", f"u{n // 700}"] for n in range(N_ROWS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", 4096)
        my.TagIndex().add_many(rows, range(N_ROWS)).save(path)
    return path


@pytest.fixture
def saved(built: Path, tmp_path: Path) -> Path:
    return copy(built, tmp_path / "an.index")


def damage(path: Path, name: str, at: int) -> None:
    """Flip a bit of a file; `at` may count from its end."""
    file = version_of(path) / name
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.unlink()
    file.write_bytes(data)


def place_of(path: Path, key: int) -> int:
    """The place of a key in keys.npy."""
    keys = np.load(version_of(path) / "shards/0000/keys.npy")
    return 128 + int(np.flatnonzero(keys == key)[0]) * keys.itemsize


def pair(key: int) -> list[str]:
    return [f"t{key % 700}", f"u{key // 700}"]


def far_apart(path: Path) -> tuple[int, int]:
    """A key whose row is in the first group of rows, and one in the last."""
    keys = np.load(version_of(path) / "shards/0000/keys.npy")
    return int(keys[1000]), int(keys[-1000])


# -------------------------------------------------------------------- what is checked, and when


def test_a_damaged_block_is_refused_when_it_is_needed_and_only_then(saved: Path) -> None:
    near, far = far_apart(saved)
    damage(saved, "shards/0000/keys.npy", place_of(saved, far))
    index = my.open(saved)
    for _ in range(2):
        assert index.match_one(pair(near)) == [near]
        assert index.match([pair(near)] * 9, threads=2).to_lists() == [[near]] * 9
        with pytest.raises(my.StorageError, match=r"keys\.npy is damaged: the XXH64 of block \d+ "):
            index.match_one(pair(far))
        with pytest.raises(my.StorageError, match=r"keys\.npy is damaged"):
            index.match([pair(near), pair(far)])


def test_without_the_check_the_answer_is_wrong(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = far_apart(saved)[1]
    damage(saved, "shards/0000/keys.npy", place_of(saved, far))
    assert my.open(saved, verify=False).match_one(pair(far)) == [far ^ 4]
    monkeypatch.setattr(Blocks, "_check", lambda self, some: None)
    assert my.open(saved).match_one(pair(far)) == [far ^ 4]


def test_one_event_needs_few_blocks(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    check = Blocks._check
    monkeypatch.setattr(
        Blocks, "_check", lambda self, some: [checked.append(len(some)), check(self, some)]
    )
    index, (near, _) = my.open(built), far_apart(built)
    n_ends = sum(checked)
    checked.clear()
    assert index.match_one(pair(near)) == [near]
    n_all = sum(-(-entry[1] // 4096) for entry in manifest_of(built)["files"])
    assert n_ends + sum(checked) < n_all / 2
    checked.clear()
    assert index.match_one(pair(near)) == [near]
    assert index.info()["subscriptions"] == len(index) == N_ROWS
    assert sum(checked) == 0


def test_a_result_with_more_keys_than_the_table_needs_all_of_it(saved: Path) -> None:
    near, far = far_apart(saved)
    damage(saved, "shards/0000/keys.npy", place_of(saved, far))
    event = [pair(near)[0], *(f"u{n}" for n in range(100))]
    matches = my.open(saved).match_unique([event])
    assert matches.counts().tolist() == [100]
    with pytest.raises(my.StorageError, match=r"keys\.npy is damaged"):
        my.open(saved).match_unique([event] * 701).counts()


def test_files_up_to_a_sum_are_checked_at_opening(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(saved, "shards/0000/ids.npy", -1)
    n_bytes = sum(entry[1] for entry in manifest_of(saved)["files"])
    monkeypatch.setattr(files, "AUTO_BYTES", n_bytes)
    with pytest.raises(my.StorageError, match=r"ids\.npy is damaged"):
        my.open(saved)
    damage(saved, "shards/0000/ids.npy", -1)
    damage(saved, "shards/0000/ids.npy", 100_000)
    my.open(saved, verify="lazy")
    monkeypatch.setattr(files, "AUTO_BYTES", n_bytes - 1)
    my.open(saved)


def test_an_older_format_is_checked_whole(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        path = copy(make.FOLDER / f"format-{number}" / "rarest-int", tmp_path / str(number))
        my.open(path)
        damage(path, "shards/0000/keys.npy", -1)
        for verify in ("auto", "lazy"):
            with pytest.raises(my.StorageError, match=r"keys\.npy is damaged"):
                my.open(path, verify=verify)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["rarest-str", "auto-str", "lazy_dfa-int"])
def test_a_golden_index_of_format_4_is_checked_block_by_block(tmp_path: Path, name: str) -> None:
    path = copy(make.FOLDER / "format-4" / name, tmp_path / "an.index")
    events, answers = make.answers_of(my.open(path).info()["engine"], name.rpartition("-")[0])
    names = make.NUMBERS if name.endswith("int") else {key: key for key in make.NUMBERS}
    want = [sorted(names[key] for key in keys) for keys in answers]
    assert [sorted(keys) for keys in my.open(path, verify="lazy").match(events)] == want
    damage(path, max(manifest_of(path)["files"], key=lambda entry: entry[1])[0], 300)
    with pytest.raises(my.StorageError, match="is damaged"):
        my.open(path, verify="lazy").match(events)


def test_threads_share_what_is_checked(built: Path) -> None:
    index, found = my.open(built), []
    events = [pair(key) for key in range(0, N_ROWS, 501)]
    threads = [
        threading.Thread(target=lambda: found.append(index.match(events).to_lists()))
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [[[key] for key in range(0, N_ROWS, 501)]] * 4


# -------------------------------------------------------------------- every way to read

VERBS: dict[str, Callable[[Any], Any]] = {
    "items": lambda index: next(iter(index.items())),
    "subscriptions": lambda index: index.subscriptions(7),
    "explain": lambda index: index.explain(pair(7), 7),
    "in": lambda index: 7 in index,
    "save": lambda index: index.save(f"{tempfile.mkdtemp()}/other.index"),
    "consolidate": lambda index: index.add(["new"], 1).consolidate(),
    "remove": lambda index: index.remove(7, set(pair(7))).consolidate(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_look_at_all_subscriptions_check_all(saved: Path, verb: str) -> None:
    damage(saved, "shards/0000/ids.npy", 4 * N_ROWS // 2)  # of the second group of rows
    index = my.open(saved)
    with pytest.raises(my.StorageError, match=r"ids\.npy is damaged: the XXH64 of block"):
        VERBS[verb](index)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("keys.arrow", lambda index: index.match_one("a")),
        ("keys.arrow", lambda index: index.match(["a", "b"])),
        ("keys.arrow", lambda index: index.key_names()),
        ("keys.slots.npy", lambda index: index.subscriptions("key 7")),
        ("keys.slots.npy", lambda index: index.add("c", "key 7")),
    ],
)
def test_names_of_keys_are_checked(tmp_path: Path, name: str, read: Callable[[Any], Any]) -> None:
    path = tmp_path / "an.index"
    my.TagIndex().add_many([["a"]] * 99, [f"key {n}" for n in range(99)]).save(path)
    damage(path, name, (version_of(path) / name).stat().st_size // 2)
    index = my.open(path)
    with pytest.raises(my.StorageError, match=f"{name} is damaged: the XXH64 of block"):
        read(index)


@pytest.mark.parametrize("engine", my.ENGINES)
def test_flips_are_noticed_in_every_file_by_every_way_to_read(tmp_path: Path, engine: str) -> None:
    random, path = seeded(1, engine), tmp_path / f"{engine}-0.index"
    inputs.make(path, engine, DEFAULTS[engine], {}, random, 40, strings=True)
    events = [inputs.event(engine, random) for _ in range(8)]
    tally = flips.flip([(path, engine, "", events)], random, 100, "blocks", flips.READS)
    assert tally.is_clean, tally.failures[:9]
    assert tally.outcomes["refused"] > 80


def test_a_rib_is_checked_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.rib"
    rib = Rib([[1]])
    rib.apply(Update([f"jazz t{n}" for n in range(40)]), 0, 1)
    rib.save(path)
    damage(path, "shards/0000/ids.npy", 200)
    with pytest.raises(my.StorageError, match=r"ids\.npy is damaged"):
        Rib.open(path)


# -------------------------------------------------------------------- versions


def names_of(path: Path, version: str) -> set[str]:
    text = (path / "versions" / version / "manifest.json").read_text()
    return {entry[0] for entry in json.loads(text)["files"]}


def test_versions_that_are_carried_on_keep_their_blocks(saved: Path) -> None:
    for version in ("0002", "0003"):
        removed = {"subscription": pa.nulls(2, pa.string()), "key": [5, int(version)]}
        with shards.new_version(saved) as folder:
            base = shards.carry(saved, folder, pa.table(removed))
            shards.publish(saved, folder, base.files, base.plan, base.segments)
        assert "shards/0000/removed_keys.npy.blocks" in names_of(saved, version)
    carried = names_of(saved, "0002")
    assert shards.restore(saved, "0002") == "0004"
    assert names_of(saved, "0004") == carried
    for version, n_rows in (("0003", N_ROWS - 3), ("0004", N_ROWS - 2)):
        index = my.open(saved, version=version)
        assert len(index) == n_rows
        assert index.match_one(pair(9)) == [9]


def test_a_removal_by_key_reads_no_table(saved: Path) -> None:
    damage(saved, "shards/0000/ids.npy", 100_000)
    removed = pa.table({"subscription": pa.nulls(1, pa.string()), "key": [5]})
    with shards.new_version(saved) as folder:
        assert shards.carry(saved, folder, removed).segments == [1]
