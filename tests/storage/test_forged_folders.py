"""Forged folders: nothing outside of them is written, and what was saved can be opened again."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard import storage
from matchyard.storage import cache, versions
from tests.torture.rewriting import array_bytes, copy, manifest_of, version_of, write_file

ROWS = [["a"], ["a", "b"], ["b"], [], ["c", "a"]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved index of tags with string keys."""
    path = tmp_path_factory.mktemp("built") / "an.index"
    my.TagIndex().add_many(ROWS, list("vwxyz")).save(path)
    return path


@pytest.fixture
def saved(built: Path, tmp_path: Path) -> Path:
    """A copy to be forged."""
    return copy(built, tmp_path / "an.index")


def test_a_link_in_place_of_the_versions_is_not_written_to(saved: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    (photos / "2019").mkdir(parents=True)
    (saved / "versions").rename(tmp_path / "aside")
    (saved / "versions").symlink_to(photos)
    with pytest.raises(my.StorageError, match="leads out of"):
        my.TagIndex().add("a", 1).save(saved)
    assert [entry.name for entry in photos.iterdir()] == ["2019"]


@pytest.mark.parametrize("name", [".lock", "CURRENT.new"])
def test_a_link_in_place_of_a_file_is_not_followed(saved: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (saved / name).unlink(missing_ok=True)
    (saved / name).symlink_to(victim)
    try:
        my.open(saved, verify=True).save(saved)
    except my.StorageError:
        (saved / name).unlink()
    assert victim.read_text() == "precious"
    assert len(my.open(saved, verify=True)) == 5


def test_a_pipe_in_place_of_the_lock_is_not_waited_for(saved: Path) -> None:
    (saved / ".lock").unlink()
    os.mkfifo(saved / ".lock")
    with pytest.raises(my.StorageError, match=r"\.lock is no regular file"):
        my.TagIndex().save(saved)


def test_a_version_of_many_digits_can_be_opened_after_the_next_save(saved: Path) -> None:
    version_of(saved).rename(saved / "versions" / "999999999")
    (saved / "CURRENT").write_text("999999999\n")
    my.open(saved).save(saved)
    assert versions.current_version(saved) == "1000000000"
    assert len(my.open(saved)) == 5


def test_folders_that_are_no_versions_are_left_alone(saved: Path) -> None:
    for name in ("²", "x", "٠٠٠٩"):
        (saved / "versions" / name).mkdir()
    (saved / "streams" / "s").mkdir(parents=True)
    (saved / "streams" / "s" / "000000001").write_bytes(b"\xff\xff")
    (saved / "streams" / "s" / "²").write_text("0001\n")
    for _ in range(3):
        my.open(saved).save(saved)
    assert len(my.open(saved)) == 5
    assert (saved / "versions" / "²").is_dir()


@pytest.mark.parametrize("verify", [1, 1.0, np.True_, 0, "True"])
def test_what_only_looks_like_a_level_of_verify_is_refused(saved: Path, verify: Any) -> None:
    with pytest.raises(my.UsageError, match="verify is"):
        my.open(saved, verify=verify)


def test_a_version_without_a_number_is_not_the_current_one(saved: Path) -> None:
    with pytest.raises(my.StorageError, match="not a version"):
        my.open(saved, version="")


def test_names_whose_runs_are_longer_than_their_buffers_are_refused(saved: Path) -> None:
    """Arrow does not compare them when it reads a file: it read beyond the file's end."""
    file = version_of(saved) / "vocabulary.arrow"
    n_runs = len(my.open(saved)._state.snapshot.segments[0].vocabulary.uses)
    node = struct.pack("<qq", n_runs, 0)
    assert file.read_bytes().count(node) >= 2
    write_file(
        saved, "vocabulary.arrow", file.read_bytes().replace(node, struct.pack("<qq", 1 << 28, 0))
    )
    with pytest.raises(my.StorageError, match="is not a file of names"):
        my.open(saved)


@pytest.mark.parametrize("name", ["vocabulary", "keys"])
def test_a_table_of_names_that_is_all_but_full_is_refused(saved: Path, name: str) -> None:
    """The next name took the last free slot, and the one after it was looked for without end."""
    slots = np.full(8192, (0xDEADBEEF << 32) | 1, np.uint64)
    slots[5] = 0
    write_file(saved, f"{name}.slots.npy", array_bytes(slots))
    with pytest.raises(my.StorageError, match="slots has 8191 slots for"):
        my.open(saved, verify=True)


def test_an_option_that_would_overflow_is_refused() -> None:
    with pytest.raises(my.UsageError, match="option 'block' takes at most"):
        my.TagIndex("tagmatch", {"block": (1 << 63) - 1})


def test_lengths_that_no_array_has_are_refused(saved: Path) -> None:
    empty = array_bytes(np.empty((10, 10, 0), np.int64))
    huge = empty.replace(b"(10, 10, 0), }", b"(100000000000000000, 100000000000000000, 0), }")
    huge = huge.replace(b" " * (len(huge) - len(empty)) + b"\n", b"\n", 1)
    assert len(huge) == len(empty)
    write_file(saved, "shards/0000/ids.npy", huge)
    with pytest.raises(my.StorageError, match="is not an array file"):
        my.open(saved)


def test_a_damaged_copy_in_the_cache_is_fetched_again(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "cache"))
    address = f"local://{saved}"
    assert len(my.open(address)) == 5
    sha256 = next(
        entry[2] for entry in manifest_of(saved)["files"] if entry[0].endswith("/ids.npy")
    )
    cached = cache.cache_folder() / "files" / sha256
    data = bytearray(cached.read_bytes())
    data[-1] ^= 1
    cached.write_bytes(data)
    assert len(my.open(address)) == 5


def test_names_of_twigs_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "an.index"
    my.TwigIndex().add("//a/b", 1).save(path)
    file = version_of(path) / "vocabulary/names.arrow"
    for name in (b"\0", b"1"):
        write_file(path, "vocabulary/names.arrow", file.read_bytes().replace(b"ab", name + b"b"))
        with pytest.raises(my.StorageError):
            my.open(path, verify=True)
    assert storage.FORMAT == 4
