"""Damage is noticed, descriptors are few, and caches take what was promised."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

import matchyard as my
from matchyard import storage
from matchyard.engine import find_engine
from matchyard.storage import file_places
from tests.golden import make
from tests.torture import inputs
from tests.torture.arena import seeded
from tests.torture.rewriting import copy, version_of

ROWS = [["a"], ["a", "b"], ["b"], [], ["c", "a"]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved index of tags."""
    path = tmp_path_factory.mktemp("built") / "an.index"
    my.TagIndex().add_many(ROWS, range(5)).save(path)
    return path


@pytest.fixture
def saved(built: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return copy(built, tmp_path / "an.index")


# -------------------------------------------------------------------- damage


def test_damage_is_noticed_with_default_settings(saved: Path) -> None:
    file = version_of(saved) / "shards/0000/ids.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.unlink()
    file.write_bytes(data)
    with pytest.raises(my.StorageError, match=r"ids\.npy is damaged: its XXH64"):
        my.open(saved)
    with pytest.raises(my.StorageError, match=r"ids\.npy is damaged: its SHA-256"):
        my.open(saved, verify=True)


def test_formats_without_a_fast_checksum_are_checked_by_the_other() -> None:
    golden = make.FOLDER / "format-2" / "rarest-int"
    assert all(file.xxh64 == "" for file in storage.read_manifest(version_of(golden))["files"])
    assert my.open(golden).match(make.EVENTS)[0]


def test_what_verify_takes(saved: Path) -> None:
    for verify in ("yes", 2, None):
        with pytest.raises(my.UsageError, match="verify is"):
            my.open(saved, verify=verify)  # type: ignore[arg-type]


# -------------------------------------------------------------------- descriptors


def test_500_small_indexes_of_all_engines_open_under_1024_descriptors(tmp_path: Path) -> None:
    random, paths = seeded(1, "descriptors"), []
    for engine in my.ENGINES:
        path = tmp_path / f"{engine}.index"
        inputs.make(path, engine, find_engine(engine).default, {}, random, 20, strings=True)
        paths.append(path)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
    try:
        held = [my.open(paths[number % 3]) for number in range(500)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(held) == 500


def test_too_many_open_files_are_called_so(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matchyard.storage.content.READ_BYTES", 0)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 4, before[1]))
    try:
        with pytest.raises(my.StorageError, match=r"too many files are open.*ulimit -n"):
            my.open(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_cache_of_object_stores_takes_no_more_than_was_promised(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "cache"))
    path = copy(built, tmp_path / "longer")
    file = version_of(path) / "shards/0000/ids.npy"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data + b"\0" * 100)
    with pytest.raises(my.StorageError, match=r"ids\.npy is damaged: its size is not \d+ bytes"):
        my.open(f"local://{path}")
    assert json.loads((version_of(path) / "manifest.json").read_text())["format"] == storage.FORMAT
    assert file_places.is_remote(f"local://{path}")
