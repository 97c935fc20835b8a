"""The rooms of the house: what a folder lets others import, how it is named, how large it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.test_form import FILES, ROOT, SOURCES, imported, module_of


def is_corridor(folder: Path) -> bool:
    """True for folders that only hold rooms: `engines`, an engine, and its `algorithms`."""
    depth = len(folder.relative_to(SOURCES / "engines").parts) if "engines" in folder.parts else 9
    return folder == SOURCES or depth < 2 or (depth == 2 and folder.name == "algorithms")


FOLDERS = [folder for folder in sorted({file.parent for file in FILES}) if not is_corridor(folder)]
# Rooms of an engine, from the lowest: each may import those before it.
ROOMS = ("language", "xml", "oracle", "encoder", "workload", "algorithms")
LARGEST = 20  # files of a folder…
CROWDED = ("network",)  # …but for these


def exported(folder: Path) -> set[str]:
    """The names and modules in `__all__` of a folder's `__init__`."""
    for node in ast.parse((folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return set(names)
    raise AssertionError(f"{folder.relative_to(SOURCES)}: its __init__ has no __all__")


def steps_into(file: Path) -> Iterator[tuple[Path, str]]:
    """The folders that an import of a file enters, and what it takes there."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            whole = [alias.name for alias in node.names if alias.name.startswith("matchyard.")]
            assert not whole or SOURCES not in file.parents, f"{file}: write from … import"
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("matchyard."):
            continue
        for alias in node.names:
            *parts, last = f"{node.module}.{alias.name}".split(".")[1:]
            for n in range(len(parts)):
                folder = SOURCES.joinpath(*parts[: n + 1])
                if folder.is_dir() and folder not in file.parents:
                    yield folder, [*parts, last][n + 1]


TAKEN = {
    step for file in (*FILES, *(ROOT / "benchmarks").rglob("*.py")) for step in steps_into(file)
}


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_a_module_imports_only_what_other_folders_export(file: Path) -> None:
    for folder, name in steps_into(file):
        if not is_corridor(folder):
            assert name in exported(folder), f"{file} imports {name} of {folder}"


def test_the_rule_of_exports_sees_a_wrong_import(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("from matchyard.engines.predicates.encoder.json.strings import x\n")
    taken = [(folder.name, name) for folder, name in steps_into(file)]
    assert taken[-2:] == [("encoder", "json"), ("json", "strings")]
    assert "strings" not in exported(SOURCES / "engines/predicates/encoder/json")


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: folder.relative_to(SOURCES).as_posix()
)
def test_what_a_folder_exports_is_there_and_is_used(folder: Path) -> None:
    names = exported(folder)
    text = (folder / "__init__.py").read_text()
    for name in names:
        is_module = (folder / f"{name}.py").exists() or (folder / name).is_dir()
        is_name = text.count(name) > 1
        by_name = folder.parent.name == "algorithms" and name in (folder.name, "gpu")
        is_taken = by_name or (folder, name) in TAKEN
        assert is_name or (is_module and is_taken), f"{folder}: {name}"
    assert ast.get_docstring(ast.parse(text))


def test_no_module_has_a_leading_underscore_and_no_folder_is_crowded() -> None:
    for file in SOURCES.rglob("*"):
        if "__pycache__" not in file.parts and file.suffix in (".py", ".cu", ".cuh"):
            assert file.stem.startswith("__") or not file.stem.startswith("_"), file
    for folder in FOLDERS:
        assert folder.name in CROWDED or len(list(folder.glob("[!_]*.*"))) <= LARGEST, folder


@pytest.mark.parametrize("file", [file for file in FILES if "engines" in file.parts], ids=module_of)
def test_rooms_of_an_engine_import_only_rooms_before_them(file: Path) -> None:
    parts = module_of(file).split("/")
    if len(parts) < 3:
        return
    engine, room = parts[1:3]
    for name in imported(file):
        other = name.split("/")
        if other[:2] == ["engines", engine] and len(other) > 2 and other[2] != room:
            assert ROOMS.index(other[2]) < ROOMS.index(room), f"{file} imports {name}"


def test_no_modules_import_each_other_in_circles() -> None:
    names = {module_of(file) for file in FILES}
    graph = {
        module_of(file): imported(file, at_runtime=True) & names - {module_of(file)}
        for file in FILES
    }
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert len(order) == len(names)


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_architecture_asks_a_question_for_every_folder_in_eight_lines() -> None:
    sections = re.split(r"^## ", ARCHITECTURE, flags=re.MULTILINE)[1:]
    headings = [section.splitlines()[0] for section in sections]
    for folder in (entry for entry in SOURCES.iterdir() if (entry / "__init__.py").exists()):
        assert any(f"`{folder.name}/" in heading for heading in headings), folder
    for section in sections:
        lines = [line for line in section.splitlines()[1:] if line]
        if section.startswith("`"):
            assert "?" in section.splitlines()[0]
            assert len(lines) <= 8, section


def test_architecture_names_no_file_that_is_not_there() -> None:
    names = {path.name for path in SOURCES.rglob("*") if "__pycache__" not in path.parts}
    for name in re.findall(r"`([\w./]+\.(?:py|cuh))`", ARCHITECTURE):
        if "NAME" in name:
            continue
        exists = (SOURCES / name).exists() or (ROOT / name).exists()
        assert exists or ("/" not in name and name in names) or _is_below_an_engine(name), name


def _is_below_an_engine(name: str) -> bool:
    return any(SOURCES.glob(f"engines/**/{name}"))
