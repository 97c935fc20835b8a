"""Files that become the content of a folder in one step."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs
import pytest

import matchyard as my
from matchyard.storage import file_places


def names(folder: str) -> list[str]:
    files, name = file_places.file_system(folder) if "://" in folder else (None, folder)
    if files is None:
        return sorted(entry.name for entry in file_places.local_path(name).iterdir())
    selector = file_places.FileSelector(name, allow_not_found=True)
    return sorted(info.base_name for info in files.get_file_info(selector))


def write(path: str, text: bytes = b"text") -> str:
    with file_places.create_file(path) as file:
        file.write(text)
    return path


@pytest.fixture(params=["{}", "file://{}", "memory://{}", "local://{}"])
def root(request, tmp_path):
    return request.param.format(tmp_path)


def test_files_become_a_folder(root):
    for overwrite in (False, True, True):
        written = [write(f"{root}/scratch/tasks/{name}") for name in ("a", "b")]
        write(f"{root}/scratch/tasks/lost")
        file_places.publish_files(written, f"{root}/scratch/whole", f"{root}/out", overwrite)
        assert names(f"{root}/out") == ["_SUCCESS", "a", "b"]
        file_places.remove_folder(f"{root}/scratch")


def test_a_folder_that_came_into_being_meanwhile_stays(root):
    written = [write(f"{root}/scratch/tasks/a")]
    write(f"{root}/out/other")
    with pytest.raises(my.MatchyardError, match=r"out (cannot be written|has come into being)"):
        file_places.publish_files(written, f"{root}/scratch/whole", f"{root}/out", False)
    assert names(f"{root}/out") == ["other"]


@pytest.mark.parametrize(("fails", "words"), [(True, "SlowDown"), (False, "old is there again")])
def test_a_store_that_keeps_old_files_is_told(tmp_path, monkeypatch, fails, words):
    root = f"memory://{tmp_path}"
    for name in ("old", "_SUCCESS"):
        write(f"{root}/out/{name}")
    written = [write(f"{root}/scratch/tasks/a")]

    def keep(*given: object, **named: object) -> None:
        if fails:
            raise OSError("SlowDown: 503")

    monkeypatch.setattr(pa.fs.FSSpecHandler, "delete_dir", keep)
    with pytest.raises(my.StorageError, match=f"out cannot be emptied: .*{words}"):
        file_places.publish_files(written, f"{root}/scratch/whole", f"{root}/out", True)
    assert names(f"{root}/out") == ["old"]


@pytest.mark.parametrize(
    ("path", "other", "is_within"),
    [
        ("s3a://bucket/a/b", "s3://bucket/a", True),
        ("s3://key:secret@bucket/a?region=x", "s3://bucket/a/", True),
        ("s3://bucket/a", "s3://bucket/ab", False),
        ("s3://bucket/a%20b", "s3://bucket/a b", True),
        ("abfss://raw@account/a", "abfs://raw@account/a", True),
        ("abfss://raw@account/a", "abfss://out@account/a", False),
        ("hdfs:///a/b", "hdfs://name:8020/a", True),
        ("hdfs://name:8020/a", "hdfs:///a/b", False),
        ("hdfs://name:8020/a", "hdfs://name/a", True),
        ("hdfs:///a/b", "s3://bucket/a", False),
        ("gs://bucket/a", "s3://bucket/a", False),
        ("dbfs:/data/out", "s3://bucket/data", False),
        ("s3://[bucket/a", "s3://[bucket/a", True),
        ("/data/a", "s3://data/a", False),
        ("/data/a/../b", "/data/b", True),
        ("/data/ab", "/data/a", False),
    ],
)
def test_places_within_each_other_are_found_however_they_are_written(path, other, is_within):
    assert file_places.is_within(path, other) is is_within


def test_what_cannot_be_read_is_told(tmp_path):
    with (
        pytest.raises(my.StorageError, match="cannot be read"),
        file_places.open_file(str(tmp_path)),
    ):
        pass


def test_an_empty_folder_may_be_there(tmp_path):
    (tmp_path / "out").mkdir()
    written = [write(str(tmp_path / "scratch/tasks/a"))]
    file_places.publish_files(
        written, str(tmp_path / "scratch/whole"), str(tmp_path / "out"), False
    )
    assert names(str(tmp_path / "out")) == ["_SUCCESS", "a"]


class Interrupted(pa.fs.LocalFileSystem):
    """Ctrl-C comes just before or just after the first rename to or from a folder."""

    def __init__(self, folder: str, when: str) -> None:
        super().__init__()
        self.folder, self.when = folder, when

    def move(self, source: str, target: str) -> None:
        is_first, kind = self.folder in (source, target), "from" if self.folder == source else "to"
        if is_first and self.when == f"before {kind}":
            self.when = ""
            raise KeyboardInterrupt
        super().move(source, target)
        if is_first and self.when == f"after {kind}":
            self.when = ""
            raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["before from", "after from", "before to", "after to"])
def test_ctrl_c_between_the_renames_leaves_a_whole_folder(tmp_path, monkeypatch, when):
    out = str(tmp_path / "out")
    write(f"{out}/old")
    written = [write(str(tmp_path / "scratch/tasks/new"))]
    files = Interrupted(out, when)
    monkeypatch.setattr(file_places, "LocalFileSystem", lambda: files)
    with pytest.raises(KeyboardInterrupt):
        file_places.publish_files(written, str(tmp_path / "scratch/whole"), out, True)
    assert files.when == ""
    assert names(out) == (["_SUCCESS", "new"] if when == "after to" else ["old"])


@pytest.mark.parametrize("root_of", ["{}", "memory://{}"])
def test_a_file_that_is_not_written_to_its_end_is_not_there(tmp_path, root_of):
    path = f"{root_of.format(tmp_path)}/a.txt"
    for text in (b"first", b"second"):
        if text == b"first" or "memory" not in path:
            write(path, text)
        with pytest.raises(TypeError), file_places.create_file(path) as file:
            file.write(b"half" + file.write(b"half"))
    if "memory" in path:  # a store has no renames in one step
        assert not file_places.exists(path)
        return
    with file_places.open_file(path) as file:
        assert file.read() == b"second"
    assert names(str(tmp_path)) == ["a.txt"]


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
    with (
        pytest.raises(my.StorageError, match="cannot be written"),
        file_places.create_file(str(tmp_path / "gone/a"), makes_folder=False) as file,
    ):
        file.write(b"late")
    assert names(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:/a%20b/c", "/a b/c"),
        ("file:///a/b", "/a/b"),
        ("a%20b", "a%20b"),
        ("file:x", "file:x"),
    ],
)
def test_addresses_of_files_are_paths(text, path):
    assert file_places.path_text(text) == path
    assert not file_places.is_remote(text)


def test_addresses_with_one_slash_are_no_paths():
    assert file_places.is_remote("dbfs:/volumes/x")
    assert not file_places.is_remote("C:/x")
