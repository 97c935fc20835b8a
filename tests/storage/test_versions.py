"""Versions: one that is gone is named, and a first one that fails leaves nothing."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import matchyard as my
from matchyard import shards
from matchyard.storage import versions
from tests.storage.published import publish


def test_a_version_that_is_gone_is_named(tmp_path, quick_saves):
    path = tmp_path / "a.index"
    publish(str(path), 4)
    with pytest.raises(my.StorageError, match=r"has no version 0001: .* the current one is 0004"):
        my.open(path, version="0001")


def test_a_writer_that_waits_while_a_first_version_fails_goes_on(tmp_path):
    path = tmp_path / "a.index"
    with ThreadPoolExecutor(1) as pool:
        with versions.new_version(path):
            waiting = pool.submit(my.TagIndex().add("jazz", 1).save, path)
            time.sleep(
                0.2
            )  # it waits for the lock, which the first writer removes: nothing is published
        waiting.result(60)
    assert my.open(path).match(["jazz"])[0] == [1]


def test_a_first_version_that_fails_leaves_nothing(tmp_path):
    path = tmp_path / "a.index"
    with pytest.raises(KeyError), versions.new_version(path):
        raise KeyError
    assert not path.exists()
    with pytest.raises(my.UsageError, match="is no index"):
        shards.retain(path, versions=3)


def test_an_interrupt_while_a_folder_is_removed_stays_an_interrupt(tmp_path, monkeypatch):
    def remove(*_, **__):  # as `shutil.rmtree` does if Ctrl-C comes after it has closed a folder
        try:
            raise KeyboardInterrupt
        finally:
            os.close(1 << 20)

    with pytest.raises(KeyboardInterrupt), versions.new_version(tmp_path / "a.index"):
        monkeypatch.setattr(versions.shutil, "rmtree", remove)
