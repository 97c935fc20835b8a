"""Files that become the content of a folder in one step."""

from __future__ import annotations

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


@pytest.fixture(params=["{}", "file://{}", "memory://{}"])
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


def test_an_empty_folder_may_be_there(tmp_path):
    (tmp_path / "out").mkdir()
    written = [write(str(tmp_path / "scratch/tasks/a"))]
    file_places.publish_files(
        written, str(tmp_path / "scratch/whole"), str(tmp_path / "out"), False
    )
    assert names(str(tmp_path / "out")) == ["_SUCCESS", "a"]
