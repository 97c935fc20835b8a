"""Opening trusts nothing: every finding of an attack on saved indexes, as a small test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.storage import FORMAT, versions
from tests.torture.rewriting import (
    copy,
    manifest_of,
    version_of,
    write_manifest,
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


def forge(path: Path, **fields: Any) -> None:
    write_manifest(path, {**manifest_of(path), **fields})


# -------------------------------------------------------------------- manifests


@pytest.mark.parametrize(
    "name",
    [
        "/etc/hostname", "../../../x.npy", "shards/0000/../../../x.npy", "shards/0000/keys.npy\0",
        "shards/٠٠٠٠/keys.npy", "shards/0000/keys", "shards/0007/keys.npy", "keys.npy", "",
        "segments/0001/routes.npy", "shards/00000/keys.npy",
    ],
)  # fmt: skip
@pytest.mark.parametrize("verify", [True, "auto", False])
def test_a_file_name_that_no_writer_gives_is_refused(saved: Path, name: str, verify: Any) -> None:
    entries = manifest_of(saved)["files"]
    forge(saved, files=[[name, *entries[0][1:]], *entries[1:]])
    with pytest.raises(my.StorageError, match=r"manifest\.json"):
        my.open(saved, verify)


@pytest.mark.parametrize("sha256", ["", "../../x", "0" * 63, "G" * 64, "A" * 64, 7, None])
def test_a_checksum_that_is_none_is_refused_before_it_becomes_a_path(
    saved: Path, sha256: Any
) -> None:
    first, *others = manifest_of(saved)["files"]
    forge(saved, files=[[first[0], first[1], sha256, first[3]], *others])
    with pytest.raises(my.StorageError, match=r"manifest\.json"):
        my.open(saved)


@pytest.mark.parametrize(
    "fields",
    [
        {"segments": [-1]}, {"segments": 3}, {"segments": ["a"]}, {"segments": [[1]]}, {"segments": []},
        {"segments": [10**6]}, {"segments": [2]}, {"segments": [True]}, {"segments": [1, 1]},
        {"files": None}, {"files": [None]}, {"files": [[]]}, {"files": []}, {"files": {}},
        {"options": [1]}, {"options": {"leaf": 10**30}}, {"options": {"leaf": [1]}}, {"options": None},
        {"engine": 7}, {"engine": "../tags"}, {"algorithm": None}, {"algorithm": "x" * 1000},
        {"format": 0}, {"format": -1}, {"format": True}, {"format": 10**30}, {"applied": [1]},
        {"applied": {"a": -1}}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_of_another_shape_is_refused(saved: Path, fields: dict[str, Any]) -> None:
    forge(saved, **fields)
    with pytest.raises(my.StorageError):
        my.open(saved, verify=True)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**5 + "]" * 10**5,
        '{"format": ' + "1" * 10**4 + "}",
        '{"format": NaN}',
        '{"a":' * 10**5 + "1" + "}" * 10**5,
    ],
    ids=["deep list", "digits", "NaN", "deep object"],
)
def test_a_manifest_that_is_hard_to_parse_is_refused(saved: Path, text: str) -> None:
    (version_of(saved) / "manifest.json").write_text(text)
    with pytest.raises(my.StorageError, match=r"manifest\.json"):
        my.open(saved)


def test_every_field_of_the_format_is_needed(saved: Path) -> None:
    whole = manifest_of(saved)
    for name in set(whole) - {"sha256"}:
        write_manifest(saved, {key: value for key, value in whole.items() if key != name})
        with pytest.raises(my.StorageError):
            my.open(saved)


def test_the_manifest_has_a_fast_checksum_and_a_place_for_changes(saved: Path) -> None:
    manifest = manifest_of(saved)
    assert manifest["format"] == FORMAT
    assert manifest["applied"] == {}
    for name, size, sha256, fast in manifest["files"]:
        assert (len(sha256), len(fast), size > 0) == (64, 16, True), name
    forge(saved, applied={"orders": 17})  # what `append` will write
    assert my.open(saved, verify=True).match(EVENTS)[0]


def test_a_hostile_remote_index_writes_no_file_outside_of_the_cache(
    built: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "cache"))
    hostile = copy(built["int"], tmp_path / "hostile")
    first, *others = manifest_of(hostile)["files"]
    for name in (str(tmp_path / "dropped.npy"), "../../../../../dropped.npy"):
        forge(hostile, files=[[name, *first[1:]], *others])
        with pytest.raises(my.StorageError, match=r"manifest\.json"):
            my.open(f"local://{hostile}")
    assert not list(tmp_path.rglob("dropped*"))


# -------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["CURRENT", "versions/0001/manifest.json", "KEYS"])
def test_special_files_are_refused(saved: Path, name: str, tmp_path: Path) -> None:
    file = saved / name.replace("KEYS", "versions/0001/shards/0000/keys.npy")
    data = file.read_bytes()
    (tmp_path / "outside").write_bytes(data)
    for make in (
        lambda: os.mkfifo(file),
        lambda: file.symlink_to(tmp_path / "outside"),
        lambda: file.symlink_to("/dev/zero"),
        lambda: file.symlink_to(file.name),
        file.mkdir,
    ):
        file.unlink()
        make()
        with pytest.raises(my.StorageError):
            my.open(saved)
        file.rmdir() if file.is_dir() else file.unlink()
        file.write_bytes(data)
    assert my.open(saved).match(EVENTS)[0]


def test_a_version_that_is_a_link_out_of_the_index_is_refused(saved: Path, tmp_path: Path) -> None:
    version_of(saved).rename(tmp_path / "elsewhere")
    version_of(saved).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(my.StorageError, match="leads out of"):
        my.open(saved)


@pytest.mark.parametrize("content", [b"1" * 10**6 + b"\n", b"1" * 19 + b"\n", b"001\n"])
def test_a_current_that_is_too_long_or_too_short_is_refused(saved: Path, content: bytes) -> None:
    (saved / "CURRENT").write_bytes(content)
    with pytest.raises(my.StorageError, match="CURRENT"):
        my.open(saved)


@pytest.mark.parametrize("version", ["../0001", "x", "", "٠٠٠١", 1, "0001/", "1"])
def test_a_version_that_is_no_number_is_refused(saved: Path, version: Any) -> None:
    with pytest.raises(my.StorageError):
        versions.load(saved, version=version or "-")


@pytest.mark.parametrize("path", [None, 7, b"x", "", "a\0b", "a\ud800b", ["x"]])
def test_what_is_no_path_is_refused_by_save_and_open(
    path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for work in (lambda: my.TagIndex().save(path), lambda: my.open(path)):
        with pytest.raises(my.UsageError, match="not a path"):
            work()
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_utf8_is_saved_and_opened(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff.index")
    my.TagIndex().add("a", "ada").save(path)
    assert my.open(path, verify=True).match(["a"])[0] == ["ada"]
