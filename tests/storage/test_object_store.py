"""An index in an object store: published whole, fetched once, and refused when damaged."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

import matchyard as my
from matchyard import shards
from matchyard.storage import cache, file_places, object_store, versions
from matchyard.storage.stream_versions import version_of_batch
from tests.cases import staged


def cached() -> set[str]:
    files = (cache.cache_folder() / "files").iterdir()
    return {file.name for file in files if not file.name.startswith(".")}


def test_an_index_is_saved_to_and_opened_from_an_object_store(address):
    my.TagIndex().add("jazz live", "ada").save(address)
    index = my.open(address, verify=True)
    assert index.match(["jazz live oslo"])[0] == ["ada"]
    index.add("oslo", "bob").save(address)
    assert sorted(my.open(address).match(["jazz live oslo"])[0]) == ["ada", "bob"]
    assert my.open(address, version="0001").match(["oslo"])[0] == []
    for _ in range(3):
        my.open(address).add("more", "eve").save(address)
    names = object_store.Remote(address).names("versions")
    assert {name.split("/")[1] for name in names} == {"0004", "0005"}
    with pytest.raises(my.StorageError, match="has no version 0002"):
        my.open(address, version="0002")


def test_files_are_fetched_once_and_those_of_old_versions_forgotten(address, monkeypatch):
    index = my.TagIndex().add_many([["jazz"]] * 100, range(100)).save(address)
    my.open(address)
    first = cached()
    with monkeypatch.context() as patch:
        patch.setattr(object_store.Remote, "download", None)  # nothing is fetched again
        my.open(address)
    index.add("rock", 7).save(address)
    my.open(address)
    assert len(cached() - first) < len(cached())  # what has not changed was there
    monkeypatch.setattr(cache, "_UNUSED_S", -1.0)  # folders are not needed for a while
    for key in range(3):
        index.add("rock", key).save(address)
        my.open(address)
    manifest = {file[2] for file in shards.manifest_of(address, "0005")["files"]}
    assert manifest <= cached()
    assert len(list((cache.cache_folder() / "indexes").glob("*/*"))) == 2


def test_some_shards_need_only_their_files(address):
    plan, parts = shards.Plan(), [([["a"]], [1]), ([["b"]], [2]), ([["c"]], [3])]
    with shards.new_version(address) as folder:
        by_task, vocabulary, _ = staged(folder, plan, *parts)
        files = shards.write_names(folder, vocabulary)
        for number, some in enumerate(by_task):
            table = shards.compiled(folder, some, vocabulary, None, plan)
            written = shards.write_table(folder, number, table, below=shards.scratch())
            files += shards.adopt(folder, written)
        shards.publish(address, folder, files, plan, [3])
    assert not [name for name in object_store.Remote(address).names() if "scratch" in name]
    index = shards.open_shards(address, "0001", [1])
    assert index.match([["a", "b", "c"]])[0] == [2]
    assert not list(cache.cache_folder().glob("indexes/*/0001-*/shards/0002/*"))


def test_an_index_that_is_made_anew_at_an_address_is_fetched_anew(address):
    my.TagIndex().add("jazz", 1).save(address)
    assert my.open(address).match(["jazz"])[0] == [1]
    place = object_store.Remote(address)
    place._files.delete_dir(place._root)
    my.TagIndex().add("jazz", 2).save(address)
    assert my.open(address).match(["jazz"])[0] == [2]


def test_damage_is_found_while_fetching(address):
    my.TagIndex().add("jazz", 1).save(address)
    place = object_store.Remote(address)
    [name] = [name for name in place.names() if name.endswith("/ids.npy")]
    place.write(name, place.read(name, 1 << 20)[:-1] + b"?")
    with pytest.raises(my.StorageError, match=r"ids\.npy.* is damaged: its SHA-256"):
        my.open(address)


def test_several_workers_of_a_machine_fetch_a_file_once(address, monkeypatch):
    my.TagIndex().add("jazz", 1).save(address)
    fetched, download = [], object_store.Remote.download

    def count(self, file, cached):
        fetched.append(file.name)
        download(self, file, cached)

    monkeypatch.setattr(object_store.Remote, "download", count)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(my.open, [address] * 4))
    assert len(fetched) == len({file[2] for file in shards.manifest_of(address, "0001")["files"]})


def test_what_a_killed_writer_left_is_not_taken_for_a_version(address):
    my.TagIndex().add("jazz", 1).save(address)
    place = object_store.Remote(address)
    place.write("versions/0002/manifest.json", b"moved into place, but never published")
    my.TagIndex().add("jazz", 2).save(address)
    assert {name.split("/")[1] for name in place.names("versions")} == {"0001", "0002"}
    assert my.open(address).match(["jazz"])[0] == [2]
    assert my.open(address, version="0001").match(["jazz"])[0] == [1]


def test_a_version_that_was_overtaken_is_refused(address):
    my.TagIndex().add("jazz", 1).save(address)
    with versions.new_version(address) as folder:
        my.TagIndex().add("jazz", 2).save(address)
        with pytest.raises(my.StorageError, match=r"was at version 0001 when .* is at 0002 now"):
            shards.publish(address, folder, [], shards.Plan(), [0])
    assert my.open(address).match(["jazz"])[0] == [2]


def test_other_stores_are_reached_through_fsspec(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "cache"))
    my.TagIndex().add("jazz", 1).save("memory://folder/music.index")
    assert my.open("memory://folder/music.index", verify=True).match(["jazz"])[0] == [1]


def test_addresses_that_lead_nowhere_are_named(address):
    with pytest.raises(my.StorageError, match=r"nowhere://x cannot be reached|nowhere://x: "):
        my.open("nowhere://x")
    with pytest.raises(my.StorageError, match="is not a Matchyard index: it has no file CURRENT"):
        my.open(address)


def test_a_path_may_be_written_as_an_address(tmp_path):
    my.TagIndex().add("jazz", 1).save(f"file://{tmp_path}/a.index")
    assert json.loads((tmp_path / "a.index/versions/0001/manifest.json").read_text())["format"] == 4
    assert Path(file_places.local_path(f"file://{tmp_path}")) == tmp_path


def test_a_stream_needs_a_folder_to_say_which_version_came_first(address, tmp_path):
    my.TagIndex().add("jazz", 1).save(address)
    with pytest.raises(my.StorageError, match="object stores do not say who was first"):
        version_of_batch(address, "stream", 0)
    assert version_of_batch(address, "stream", 0, tmp_path) == "0001"
    my.TagIndex().add("jazz", 2).save(address)
    assert version_of_batch(address, "stream", 0, tmp_path) == "0001"
    assert version_of_batch(address, "stream", 1, tmp_path) == "0002"


def test_of_two_writers_at_a_time_at_most_one_publishes(address, monkeypatch):
    my.TagIndex().add("jazz", 1).save(address)
    move_all, meet = object_store.Remote.move_all, Barrier(2, timeout=0.5)

    def slow_move(self, names):
        with suppress(BrokenBarrierError):
            meet.wait()  # until the other writer is here, too, or has been refused
        move_all(self, names)

    def save(key):
        try:
            my.TagIndex().add("jazz", key).save(address)
        except my.StorageError as error:
            assert "another writer" in str(error)  # noqa: PT017
            return None
        return key

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(object_store.Remote, "move_all", slow_move)
        saved = [key for key in pool.map(save, [2, 3]) if key is not None]
    assert len(saved) <= 1
    assert my.open(address).match(["jazz"])[0] == (saved or [1])
    assert not object_store.Remote(address).names("claims")
    my.TagIndex().add("jazz", 4).save(address)
    assert my.open(address).match(["jazz"])[0] == [4]


def test_the_claim_of_a_killed_writer_is_in_the_way_for_a_while(address):
    my.TagIndex().add("jazz", 1).save(address)
    place = object_store.Remote(address)
    place.write("claims/killed", f"{time.time() + 60:.0f}\n".encode())
    with pytest.raises(
        my.StorageError, match=r"another writer is publishing .* remove claims/kill"
    ):
        my.TagIndex().add("jazz", 2).save(address)
    place.write("claims/killed", f"{time.time() - 1:.0f}\n".encode())
    my.TagIndex().add("jazz", 2).save(address)
    assert my.open(address).match(["jazz"])[0] == [2]
    assert not place.names("claims")


def test_files_of_versions_that_were_never_finished_go_when_they_are_old(address, monkeypatch):
    my.TagIndex().add("jazz", 1).save(address)
    store = object_store.Remote(address)
    store.write("versions/.writing-1-dead/scratch/x/part0", b"left by a killed writer")
    my.TagIndex().add("jazz", 2).save(address)
    assert [name for name in store.names("versions") if "writing" in name]
    monkeypatch.setattr(object_store, "_ABANDONED_S", -1.0)
    my.TagIndex().add("jazz", 3).save(address)
    assert not [name for name in store.names("versions") if "writing" in name]
    assert my.open(address).match(["jazz"])[0] == [3]


def test_names_with_signs_of_addresses_are_found(address):
    names = ["at=00%3A00/a b.parquet", "x?y#z.parquet", "日本.parquet"]
    place, _, query = address.partition("?")
    store = object_store.Remote(f"{place.rpartition('/')[0]}/in?{query}")
    for name in names:
        store.write(name, name.encode())
    found = file_places.parquet_files(store.address)
    assert len(found) == len(names)
    read = []
    for file in found:
        with file_places.open_file(file.path) as source:
            read.append(source.read().decode())
    assert sorted(read) == sorted(names)


def test_a_store_that_keeps_its_listings_is_asked_anew(monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    asked = []
    monkeypatch.setattr(
        MemoryFileSystem, "invalidate_cache", lambda self, path=None: asked.append(path)
    )
    store = object_store.Remote("memory://a.index")
    store.write("leases/0001-x", b"1")
    assert store.names("leases") == ["leases/0001-x"]
    assert asked
