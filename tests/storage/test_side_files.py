"""The checksums of blocks lie in a file beside each large file, and are carried along with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard.storage import blocks
from matchyard.storage.blocks import Blocks
from tests.torture import flips
from tests.torture.rewriting import manifest_of, version_of, write_file, write_manifest


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with flips.small_blocks():
        yield


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """An index whose files have several blocks."""
    path, numbers = tmp_path / "an.index", range(99)
    my.TagIndex().add_many([[f"t{n}", f"u{n % 9}"] for n in numbers], map(str, numbers)).save(path)
    return path


def damage(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(data)


def without(path: Path, n_keys: int) -> None:
    """Publish a version without some keys, whose other files are links."""
    keys = pa.array([str(n) for n in range(n_keys)])
    removed = pa.table({"subscription": pa.nulls(n_keys, pa.string()), "key": keys})
    with shards.new_version(path) as folder:
        base = shards.carry(path, folder, removed)
        names = shards.write_key_names(folder, base.key_names)
        shards.publish(path, folder, [*base.files, *names], base.plan, base.segments)


def test_a_new_version_is_not_made_of_damaged_names(saved: Path) -> None:
    without(saved, 20)
    assert len(my.open(saved)) == 79
    damage(saved / "versions/0002/keys.arrow", 1000)
    my.open(saved)
    with pytest.raises(my.StorageError, match=r"keys\.arrow is damaged"):
        without(saved, 3)


@pytest.mark.parametrize(("name", "at"), [("removed_keys", 400), ("ids", -1), ("keys", 5)])
def test_removals_and_the_ends_of_files_are_checked_at_opening(
    saved: Path, name: str, at: int
) -> None:
    without(saved, 20)
    damage(saved / f"versions/0002/shards/0000/{name}.npy", at)
    with pytest.raises(my.StorageError, match=rf"{name}\.npy is damaged: the XXH64 of block"):
        my.open(saved)


def test_the_side_file_is_checked_itself(saved: Path) -> None:
    damage(version_of(saved) / "shards/0000/ids.npy.blocks", 20)
    with pytest.raises(my.StorageError, match=r"ids\.npy\.blocks is damaged: its XXH64"):
        my.open(saved)


@pytest.mark.parametrize("words", [[], [0, 1], [1 << 63, 1], [1 << 41, 1], [4096], [3, 1]])
def test_a_side_file_that_does_not_fit_is_refused(saved: Path, words: list[int]) -> None:
    for data in (np.array(words, np.uint64).tobytes(), b"12345"):
        write_file(saved, "shards/0000/ids.npy.blocks", data)
        with pytest.raises(my.StorageError, match=r"ids\.npy\.blocks is damaged"):
            my.open(saved)


def test_the_manifest_lists_blocks_beside_their_file_and_since_format_4(saved: Path) -> None:
    manifest = manifest_of(saved)
    without = [entry for entry in manifest["files"] if entry[0] != "shards/0000/ids.npy"]
    entry = [["shards/0000/other.npy.blocks", 8, "0" * 64, "0" * 16]]
    changes: list[dict[str, Any]] = [
        {"format": 3},
        {"files": [*manifest["files"], *entry]},
        {"files": without},
    ]
    for change in changes:
        write_manifest(saved, {**manifest, **change})
        with pytest.raises(my.StorageError, match=r"\.blocks, which belongs to no file"):
            my.open(saved)


@pytest.mark.parametrize("n_bytes", [1, 63, 64, 65, 128, 1000])
def test_blocks_are_those_that_hold_the_items(n_bytes: int) -> None:
    random = np.random.default_rng(n_bytes)
    data = random.integers(0, 256, n_bytes, np.uint8)
    sums = blocks.sums_of(data).view(np.uint8)
    array = data[n_bytes % 8 :].view(np.uint64)
    for _ in range(20):
        low, high = np.sort(random.integers(0, len(array) + 1, (2, 3)), axis=0)
        one = Blocks("a", data, sums)
        one.check_items(array, low, high)
        first = n_bytes % 8
        wanted = {
            byte // 64
            for start, end in zip(first + 8 * low, first + 8 * high, strict=True)
            for byte in range(start, end)
        }
        assert set(np.flatnonzero(one._is_checked).tolist()) == wanted
        for block in range(-(-n_bytes // 64)):
            damaged = data.copy()
            damaged[block * 64] ^= 1
            other = Blocks("a", damaged, sums)
            if block in wanted:
                with pytest.raises(my.StorageError, match=f"block {block} "):
                    other.check_items(array, low, high)
            else:
                other.check_items(array, low, high)
