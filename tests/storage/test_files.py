"""A saved index is read whole or refused with the name of the file; versions come and go."""

from __future__ import annotations

import json
import mmap
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import matchyard as my
from matchyard import storage
from matchyard.engine import find_algorithm, find_engine
from matchyard.storage import content, versions
from tests.cases import ONE_EACH, build
from tests.golden import make

SOURCES = Path(my.__file__).parent
ROWS, KEYS, EVENTS = [["a", "b"], ["b"], [], ["c"]], ["k", "l", "m", "ö"], [["a", "b"], ["c"], []]
GOLDEN = sorted(make.FOLDER.glob("format-*/*"))


def version_of(path: Path) -> Path:
    return path / "versions" / versions.current_version(path)


def files_of(path: Path) -> list[str]:
    """The files of the current version, the manifest among them."""
    folder = version_of(path)
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


FILES = files_of(make.FOLDER / "format-2" / "tagmatch-str")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A copy of a golden index, to be damaged."""
    return Path(shutil.copytree(make.FOLDER / "format-2" / "tagmatch-str", tmp_path / "a.index"))


def answers(path: Path, verify: bool = False) -> list[list[str]]:
    return [sorted(keys) for keys in my.open(path, verify).match(EVENTS)]


def save(path: Path, *added: str) -> None:
    build(ROWS, KEYS).add_many([[]] * len(added), list(added)).save(path)


def test_the_layout_is_what_the_storage_module_says(saved: Path) -> None:
    assert (saved / "CURRENT").read_text() == "0001\n"
    shards = {f"shards/{n:04}/{field}.npy" for n in (0, 1) for field in find_algorithm(
        find_engine("tags"), "tagmatch").Table._fields}  # fmt: skip
    names = {f"{what}.{kind}" for what in ("vocabulary", "keys") for kind in ("arrow", "slots.npy")}
    assert set(FILES) == shards | names | {"manifest.json"}
    manifest = json.loads((version_of(saved) / "manifest.json").read_text())
    assert {file[0] for file in manifest["files"]} == set(FILES) - {"manifest.json"}
    assert (manifest["format"], manifest["engine"], manifest["algorithm"]) == (
        2,
        "tags",
        "tagmatch",
    )


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_found_by_verify(saved: Path, name: str) -> None:
    file = version_of(saved) / name
    intact = file.read_bytes()
    for place in {0, len(intact) // 2, len(intact) - 1}:
        damaged = bytearray(intact)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(my.StorageError, match=re.escape(name)):
            my.open(saved, verify=True)
    file.write_bytes(intact)
    assert len(my.open(saved, verify=True)) == 5


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("damage", ["truncated", "longer", "missing", "foreign", "empty"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_whole_is_refused(
    saved: Path, name: str, damage: str, verify: bool
) -> None:
    file = version_of(saved) / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        foreign = (b"GIF89a" * len(content))[: len(content)]
        changed = {"truncated": content[:-1], "longer": content + b"\0", "foreign": foreign}
        file.write_bytes(changed.get(damage, b""))
    with pytest.raises(my.StorageError, match=re.escape(name)):
        my.open(saved, verify)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"0001", b"0001\n0002\n", b"1 \n", b"../x\n", b"\xff\n"]
)
def test_a_damaged_current_is_refused(saved: Path, content: bytes) -> None:
    (saved / "CURRENT").write_bytes(content)
    with pytest.raises(my.StorageError, match="CURRENT is damaged"):
        my.open(saved)


def test_a_current_that_names_no_version_is_refused(saved: Path) -> None:
    (saved / "CURRENT").write_text("0007\n")
    with pytest.raises(my.StorageError, match="0007"):
        my.open(saved)


def rewrite_manifest(path: Path, **changes: object) -> None:
    file = version_of(path) / "manifest.json"
    manifest = {**json.loads(file.read_text()), **changes}
    manifest["sha256"] = storage.self_hash(manifest)
    file.write_text(json.dumps(manifest))


def test_a_newer_format_is_refused_and_says_what_to_do(saved: Path) -> None:
    rewrite_manifest(saved, format=storage.FORMAT + 1)
    with pytest.raises(my.StorageError, match=r"format 5; .* install a newer one"):
        my.open(saved)


@pytest.mark.parametrize(
    "changes",
    [{"engine": "songs"}, {"algorithm": "magic"}, {"options": {"magic": 1}}, {"algorithm": "scan"}],
    ids=str,
)
def test_settings_of_another_version_are_refused(saved: Path, changes: dict[str, object]) -> None:
    rewrite_manifest(saved, **changes)
    with pytest.raises(my.StorageError):
        my.open(saved)


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": "1"}', "null", "{"])
def test_a_manifest_that_is_none_is_refused(saved: Path, content: str) -> None:
    (version_of(saved) / "manifest.json").write_text(content)
    with pytest.raises(my.StorageError, match=r"manifest\.json"):
        my.open(saved)


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    for path in (tmp_path, tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(my.StorageError):
            my.open(path)


def test_nothing_is_saved_over_a_foreign_folder_or_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("folder", "file"):
        with pytest.raises(my.StorageError, match="is not a Matchyard index"):
            save(tmp_path / name)
    assert [entry.name for entry in (tmp_path / "folder").iterdir()] == ["thesis.txt"]
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("left", ["", "versions", ".lock", "CURRENT.new"])
def test_a_path_where_a_first_save_was_killed_can_be_saved_to(tmp_path: Path, left: str) -> None:
    path = tmp_path / "a.index"
    (path / "versions" / ".writing-dead").mkdir(parents=True)
    (path / "versions" / "0001").mkdir()
    if left and left != "versions":
        (path / left).write_text("0001\n")
    save(path)
    assert answers(path) == [["k", "l", "m"], ["m", "ö"], ["m"]]
    assert not (path / "versions" / ".writing-dead").exists()


def test_the_last_two_versions_are_kept(tmp_path: Path, quick_saves: None) -> None:
    path, seen = tmp_path / "a.index", []
    for _ in range(4):
        save(path)
        seen.append(sorted(entry.name for entry in (path / "versions").iterdir()))
    assert seen == [["0001"], ["0001", "0002"], ["0002", "0003"], ["0003", "0004"]]


def test_a_reader_goes_on_after_two_newer_versions(tmp_path: Path, quick_saves: None) -> None:
    path = tmp_path / "a.index"
    save(path)
    reader = my.open(path)
    before = reader.match(EVENTS).to_lists()
    save(path, "new")
    save(path, "newer", "newest")
    assert not (path / "versions" / "0001").exists()
    assert reader.match(EVENTS).to_lists() == before
    assert answers(path)[2] == ["m", "newer", "newest"]
    assert sorted(reader.add({"z"}, "own").consolidate().match([["z"]])[0]) == ["m", "own"]


def test_a_version_that_goes_while_it_is_read_is_read_again(
    tmp_path: Path, quick_saves: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, of, rivals = tmp_path / "a.index", content.Contents.of, []
    save(path)

    def late(contents: content.Contents, name: str, size_bytes: int | None = None) -> object:
        if len(rivals) < 2 and "writing" not in str(contents.folder("")):
            rivals.append(1)
            save(path, "new") if len(rivals) == 2 else save(path)
        return of(contents, name, size_bytes)

    monkeypatch.setattr(content.Contents, "of", late)
    assert answers(path)[2] == ["m", "new"]


def test_opening_writes_nothing_until_save(saved: Path) -> None:
    def look() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in saved.rglob("*") if file.is_file()}

    before = look()
    index = my.open(saved, live=True).add("x", "y").remove("all").consolidate()
    index.match(EVENTS)
    assert look() == before
    index.save(saved)
    assert versions.current_version(saved) == "0002"
    assert my.open(saved, verify=True).match([["x"]])[0] == ["y"]


@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)
def test_large_arrays_of_an_opened_index_are_mapped_and_all_are_read_only(
    tmp_path: Path, case: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(ROWS, KEYS, *case[:2]).save(tmp_path / "a.index")  # type: ignore[index]
    for most, is_mapped in ((1 << 20, False), (64, True)):
        monkeypatch.setattr(content, "READ_BYTES", most)
        segment = my.open(tmp_path / "a.index")._state.snapshot.segments[0]
        for array in (*segment.tables[0], *segment.vocabulary):
            assert not array.flags.writeable
        owner = segment.tables[0].keys
        while isinstance(owner, np.ndarray) and owner.base is not None:
            owner = owner.base
        assert isinstance(getattr(owner, "obj", owner), mmap.mmap) == is_mapped


def test_nothing_is_ever_pickled() -> None:
    machine_code = SOURCES / "kernels" / "compiler" / "code_cache.py"  # in Numba's own form
    for file in set(SOURCES.rglob("*.py")) - {machine_code}:
        found = re.search(
            r"\bc?(loud)?pickle\b|allow_pickle=(?!False)|\bmarshal\b", file.read_text()
        )
        assert found is None, f"{file}: {found}"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_index_of_every_past_format_opens_and_answers(path: Path) -> None:
    index = my.open(path, verify=True)
    algorithm, _, kind = path.name.rpartition("-")
    events, answers = make.answers_of(index.info()["engine"], algorithm)
    want = [
        sorted(keys if kind == "str" else [make.NUMBERS[key] for key in keys]) for keys in answers
    ]
    assert [sorted(keys) for keys in index.match(events)] == want
    assert index.info()["keys"] == kind
    assert index.info()["algorithm"] == algorithm


def test_there_is_a_golden_index_of_every_algorithm() -> None:
    made = {path.name.rpartition("-")[0] for path in GOLDEN}
    assert made == {name for one in my.ENGINES for name in find_engine(one).algorithms}


def test_there_is_a_golden_index_of_every_format() -> None:
    assert {path.parent.name for path in GOLDEN} == {
        f"format-{n + 1}" for n in range(storage.FORMAT)
    }
