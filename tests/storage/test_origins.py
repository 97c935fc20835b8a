"""Who saves over a version of somebody else is told; in folders and in object stores."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import shutil
import threading
from typing import Any

import pytest

import matchyard as my
from matchyard import shards
from matchyard.routing import Rib, Update
from matchyard.storage import versions
from matchyard.storage.file_places import is_remote, one_name
from matchyard.storage.origins import Origins

WOULD_LOSE = "another writer has published since it was opened or saved here"


@pytest.mark.parametrize("live", [False, True])
def test_the_second_of_two_that_opened_one_version_is_told(path, live):
    my.TagIndex().add("jazz", "x").save(path)
    first, second = (my.open(path, live=live) for _ in range(2))
    first.add("jazz", "a").save(path)
    with pytest.raises(my.ConflictError, match=WOULD_LOSE):
        second.add("jazz", "b").save(path)
    assert sorted(my.open(path).match_one("jazz")) == ["a", "x"]
    assert sorted(second.consolidate().match_one("jazz")) == ["b", "x"]  # nothing is lost here
    second.save(path, overwrite=True)
    assert sorted(my.open(path).match_one("jazz")) == ["b", "x"]
    with pytest.raises(my.ConflictError):
        first.save(path)


def test_without_the_check_the_first_one_is_lost(tmp_path, monkeypatch):
    """The attack works: what is above would be seen."""
    path = tmp_path / "a.index"
    my.TagIndex().add("jazz", "x").save(path)
    first, second = my.open(path), my.open(path)
    first.add("jazz", "a").save(path)
    monkeypatch.setattr(Origins, "check", lambda *_: None)
    second.add("jazz", "b").save(path)
    assert sorted(my.open(path).match_one("jazz")) == ["b", "x"]


def test_an_index_has_opened_what_it_wrote(path):
    index = my.TagIndex().add("jazz", 1).save(path)
    index.add("jazz", 2).save(path)
    my.open(path).add("jazz", 3).save(path)
    with pytest.raises(my.ConflictError):
        index.save(path)


def test_an_index_of_elsewhere_replaces_what_is_there(path, tmp_path):
    my.TagIndex().add("jazz", 1).save(path)
    index = my.TagIndex().add("jazz", 2).save(tmp_path / "b.index")
    assert index.save(path) is index
    assert my.open(path).match_one("jazz") == [2]
    index.add("jazz", 3).save(tmp_path / "b.index")  # it knows the version of each path
    index.save(path)


def test_an_old_version_is_not_saved_over_a_newer_one(path):
    my.TagIndex().add("jazz", 1).save(path)
    my.open(path).add("jazz", 2).save(path)
    with pytest.raises(my.ConflictError):
        my.open(path, version="0001").save(path)


def test_versions_of_a_folder_that_was_made_anew_are_others(tmp_path):
    path = tmp_path / "a.index"
    opened = my.TagIndex().add("jazz", 1).save(path)
    shutil.rmtree(path)
    opened.save(path)  # there is nothing to lose
    shutil.rmtree(path)
    my.TagIndex().add("rock", 2).save(path)  # version 0001 again
    with pytest.raises(my.ConflictError):
        opened.save(path)


def test_other_spellings_of_a_path_are_the_same_index(tmp_path, monkeypatch):
    my.TagIndex().add("jazz", 1).save(tmp_path / "a.index")
    monkeypatch.chdir(tmp_path)
    os.symlink(tmp_path, tmp_path / "link")
    opened = my.open("a.index")
    my.open("a.index").add("jazz", 2).save("a.index")
    for other in ("link/a.index", f"file://{tmp_path}/a.index", tmp_path / "." / "a.index"):
        with pytest.raises(my.ConflictError):
            opened.save(other)
    assert one_name("s3a://key:secret@bucket/a//b.index?region=x") == one_name(
        "s3://bucket/a/b.index/"
    )


def test_of_threads_that_save_one_index_the_last_version_has_all_changes(tmp_path):
    """The contents are taken when it is this thread's turn to write."""
    path, index = tmp_path / "a.index", my.TagIndex(live=True)
    n_threads, n_rounds = 4, 8

    def save(thread: int) -> None:
        for turn in range(n_rounds):
            key = thread * n_rounds + turn
            index.add("jazz", key).save(path)
            assert key in my.open(path).match_one("jazz")

    failed: list[BaseException] = []

    def run(thread: int) -> None:
        try:
            save(thread)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n_threads)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed
    assert sorted(my.open(path).match_one("jazz")) == list(range(n_threads * n_rounds))


def test_a_forked_child_does_not_keep_the_lock_of_a_writer(tmp_path):
    path, goes_on = tmp_path / "a.index", multiprocessing.get_context("fork").Event()
    with versions.new_version(path):
        child = multiprocessing.get_context("fork").Process(target=goes_on.wait)
        child.start()
    try:
        saved = threading.Thread(
            target=my.TagIndex().add("jazz", 1).save, args=(path,), daemon=True
        )
        saved.start()
        saved.join(60)
        assert not saved.is_alive()
    finally:
        goes_on.set()
        child.join()


def test_a_writer_without_a_lock_notices_another_one(path, tmp_path, monkeypatch):
    """Not all file systems that machines share have locks."""
    my.TagIndex().add("jazz", 1).save(path)
    monkeypatch.setattr(versions, "fcntl", None)

    def overtaken() -> None:
        with shards.new_version(path) as folder:
            base = shards.carry(path, folder)
            if not is_remote(path):  # writers remove what seems to be left over
                folder.rename(tmp_path / "hidden")
            my.open(path).add("jazz", 2).save(path)
            if not is_remote(path):
                (tmp_path / "hidden").rename(folder)
            shards.publish(path, folder, base.files, base.plan, base.segments)

    with pytest.raises(my.ConflictError, match="another writer was faster"):
        overtaken()
    assert my.open(path).match_one("jazz") == [1, 2]


def test_a_rib_is_not_saved_over_that_of_another_process(tmp_path):
    path = tmp_path / "a.rib"
    Rib([[1, 2]]).save(path)
    first, second = Rib.open(path), Rib.open(path)
    first.apply(Update(additions=["jazz"]), 0, 1)
    first.save(path).save(path)
    with pytest.raises(my.ConflictError, match=WOULD_LOSE):
        second.save(path)
    second.save(path, overwrite=True)
    assert len(Rib.open(path)) == 0


def test_a_first_version_that_appears_is_no_foreign_folder(tmp_path, monkeypatch):
    """A writer looks at the folder of another one that publishes its first version at this moment."""
    path = tmp_path / "a.index"
    (path / "versions").mkdir(parents=True)
    listed = pathlib.Path.iterdir
    others = [lambda: my.TagIndex().add("jazz", 1).save(path)]

    def late(folder: pathlib.Path) -> Any:
        if folder == path and others:
            others.pop()()
        return listed(folder)

    monkeypatch.setattr(pathlib.Path, "iterdir", late)
    my.TagIndex().add("rock", 2).save(path)
    assert shards.current_version(path) == "0002"
