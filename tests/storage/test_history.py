"""The versions that are there, and the way back to one of them; in folders and in object stores."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest

import matchyard as my
from matchyard import shards
from matchyard.storage.file_places import is_remote, local_path
from matchyard.storage.object_store import Remote
from tests.golden import make
from tests.storage.published import kept


def test_versions_are_listed_with_their_times_sizes_and_changes(path):
    before = datetime.now(UTC) - timedelta(seconds=2)
    my.TagIndex().add("jazz", 1).save(path)
    my.open(path).add("rock", 2).save(path)
    first, second = shards.history(path)
    assert (first.name, second.name, second.segments) == ("0001", "0002", 1)
    assert first.applied == {}
    assert before <= first.published <= second.published <= datetime.now(UTC)
    n_bytes = sum(file.size_bytes for file in shards.manifest_of(path, "0002")["files"])
    assert second.index_bytes == n_bytes > 0


def test_a_version_that_goes_meanwhile_is_left_out(path):
    for _ in range(3):
        my.TagIndex().add("jazz", 1).save(path)
    manifest = "versions/0002/manifest.json"
    if is_remote(path):
        Remote(path).remove_file(manifest)  # as a writer does before it removes the files
    else:
        (local_path(path) / manifest).unlink()
    assert [version.name for version in shards.history(path)] == ["0003"]
    with pytest.raises(my.StorageError):
        shards.restore(path, 2)


def test_an_index_that_was_opened_before_a_version_came_back_is_not_saved_over_it(path):
    plan = shards.Plan("tags", None, {})
    for number in (1, 2):
        with shards.new_version(path) as folder:
            parts = list(shards.stage(folder, [([["a"]], [number])], plan, shards.scratch()))
            vocabulary, key_names = shards.merged(folder, parts, plan)
            files = shards.write_names(folder, vocabulary, key_names)
            table = shards.compiled(folder, parts, vocabulary, key_names, plan)
            files += shards.write_table(folder, 0, table)
            shards.publish(path, folder, files, plan, [1], {"orders": number})
    opened = my.open(path)
    shards.restore(path, 1)
    with pytest.raises(my.ConflictError, match="has published since it was opened"):
        opened.save(path)
    assert my.open(path).match_one("a") == [1]


def test_an_old_version_comes_back_with_its_settings_keys_and_changes(path):
    plan = shards.Plan("predicates", "counting", {})
    with shards.new_version(path) as folder:
        rows = [(["x = 1", "y = 2"], ["ada", "bob"])]
        parts = list(shards.stage(folder, rows, plan, shards.scratch()))
        vocabulary, key_names = shards.merged(folder, parts, plan)
        files = shards.write_names(folder, vocabulary, key_names)
        table = shards.compiled(folder, parts, vocabulary, key_names, plan)
        files += shards.write_table(folder, 0, table)
        shards.publish(path, folder, files, plan, [1], {"orders": 4})
    my.TagIndex().add("jazz", 1).save(path)
    assert shards.restore(path, 1) == "0003"
    index = my.open(path)
    assert index.match([{"x": 1, "y": 2}])[0] == ["ada", "bob"]
    assert index.info()["algorithm"] == "counting"
    assert shards.history(path)[-1].applied == {"orders": 4}
    assert kept(path) == ["0001", "0002", "0003"]  # the first one is leased
    with pytest.raises(my.StorageError, match="has no version 0009"):
        shards.restore(path, 9)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_an_index_of_any_format_comes_back(tmp_path, number):
    path = tmp_path / "a.index"
    shutil.copytree(make.FOLDER / f"format-{number}" / "rarest-int", path)
    found = my.open(path).match(make.EVENTS).to_arrow()
    my.TagIndex().save(path)
    shards.restore(path, 1)
    assert my.open(path, verify=True).match(make.EVENTS).to_arrow().equals(found)
