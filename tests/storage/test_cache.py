"""The cache of fetched files while other processes use it, too."""

from __future__ import annotations

import os
import shutil
import time

import pytest

import matchyard as my
from matchyard import shards
from matchyard.storage import cache, object_store


@pytest.fixture
def place(tmp_path, monkeypatch, quick_saves) -> str:
    """An index with four versions, all of which stay."""
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "cache"))
    path = f"local://{tmp_path}/a.index"
    my.TagIndex().add("jazz", 0).save(path)
    shards.retain(path, 9)
    for key in range(1, 4):
        my.open(path).add("jazz", key).save(path)
    shutil.rmtree(tmp_path / "cache")
    return path


def folders() -> list[str]:
    return sorted(entry.name[:4] for entry in (cache.cache_folder() / "indexes").glob("*/*"))


def test_versions_that_were_used_a_short_while_ago_stay(place):
    for number in range(1, 5):
        assert len(shards.open_shards(place, f"{number:04}")) == number
    assert folders() == ["0001", "0002", "0003", "0004"]
    hour_ago = time.time() - 3600
    for folder in (cache.cache_folder() / "indexes").glob("*/000[123]*"):
        os.utime(folder, (hour_ago, hour_ago))
    assert len(shards.open_shards(place, "0002")) == 2
    assert folders() == ["0002", "0004"]
    assert len(shards.open_shards(place, "0004")) == 4


@pytest.mark.parametrize("what", ["indexes/*/*", "indexes", "files"])
def test_what_another_process_removes_meanwhile_is_fetched_again(place, monkeypatch, what):
    download, n_left = object_store.Remote.download, [3]

    def with_removal(remote, file, target):
        download(remote, file, target)
        if n_left[0]:
            n_left[0] -= 1
            for folder in cache.cache_folder().glob(what):
                shutil.rmtree(folder)

    monkeypatch.setattr(object_store.Remote, "download", with_removal)
    assert len(my.open(place)) == 4
    assert n_left == [0]


def test_a_cache_that_cannot_be_written_is_an_error(place, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="file"):
        my.open(place)
