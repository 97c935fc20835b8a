"""The form of the project: who may import whom, what every engine looks like, what is public."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.engine import Algorithm, Encoder, find_algorithm, find_engine

SOURCES = Path(my.__file__).parent
ROOT = Path(__file__).parent.parent

# The layer rule: who (a module or folder) may import what of this package. `PUBLIC` stands for the
# names of `matchyard.__all__` and the modules that users import. Everybody may import itself.
PUBLIC = ("matchyard", "errors")
MATCHING = ("archives", "columns", "errors", "forwarding", "gpu", "kernels", "matches")
# fmt: off
LAYERS = {
    "errors": (),
    "archives": ("errors",),
    "columns": ("errors",),
    "parts": ("kernels",),
    "matches": ("parts", "threads"),
    "forwarding": ("errors", "kernels", "matches"),
    "threads": (),
    "kernels": ("errors", "threads"),
    "gpu": ("errors", "threads"),
    "engines/conditions": (),
    "engines/workloads": ("errors",),
    "engines/tags": MATCHING,
    "engines/predicates": ("engines/conditions", "engines/workloads", *MATCHING),
    "engines/twigs": ("engines/conditions", "engines/workloads", *MATCHING),
    "engine": ("errors", "gpu", "kernels", "matches", "threads"),
    "storage": ("errors", "kernels"),
    "index": ("columns", "engine", "errors", "gpu", "kernels", "matches", "storage", "threads"),
    "kinds": ("errors", "forwarding", "index", "matches", "storage"),
    "detections": ("engines/predicates", "errors", "kinds", "storage"),
    "opening": ("engine", "errors", "gpu", "index", "kinds", "storage", "threads"),
    "warming": ("engine", "errors", "kernels", "opening"),
    "shards": ("engine", "errors", "index", "kernels", "opening", "storage"),
    "routing": ("archives", "engine", "errors", "forwarding", "kinds", "index", "kernels", "matches", "storage", "threads"),
    "networks": ("routing",),
    "network": ("errors", "kernels", "routing", "storage"),
    "geo": ("errors", "kernels", "matches"),
    # `engine`: what an algorithm says of itself; `gpu`: which card there is
    "bench": (*PUBLIC, "engine", "matches", "gpu", "geo", "network", "routing", "spark"),
    "spark": (*PUBLIC, "geo", "routing", "shards"),
    "cli": (*PUBLIC, "bench", "geo", "kernels", "network", "routing", "shards", "spark", "threads", "matches"),
    "__main__": ("cli",),
}
# fmt: on
EXPORTED = [
    "ENGINES",
    "ConflictError",
    "DeviceError",
    "Estimate",
    "Index",
    "Matches",
    "MatchyardError",
    "Network",
    "ParseError",
    "PredicateIndex",
    "StagedWarning",
    "StorageError",
    "TagIndex",
    "TwigIndex",
    "UsageError",
    "Work",
    "__version__",
    "algorithms",
    "create",
    "field",
    "interface_key",
    "open",
    "sigma",
    "topology",
    "warm",
    "workload",
]  # fmt: skip
FILES = sorted(SOURCES.rglob("*.py"))


def module_of(file: Path) -> str:
    """`engines/tags/encoder` for that file, `kernels` for the folder's own `__init__`."""
    name = file.relative_to(SOURCES).with_suffix("").as_posix()
    return name.removesuffix("/__init__")


def imported(file: Path, at_runtime: bool = False) -> set[str]:
    """What a file imports of this package: modules as paths, public names as `matchyard`."""
    found, tree = set(), ast.parse(file.read_text())
    if at_runtime:  # without the imports that only a type checker sees
        tree.body = [
            node
            for node in tree.body
            if not isinstance(node, ast.If) or "TYPE_CHECKING" not in ast.unparse(node.test)
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write imports out in full"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_module = (SOURCES.parent / whole.replace(".", "/")).with_suffix(".py").exists()
                is_folder = (SOURCES.parent / whole.replace(".", "/")).is_dir()
                if node.module == "matchyard" and not (is_module or is_folder):
                    assert alias.name in my.__all__, f"{file} imports {whole}, which is not public"
                found.add(whole if is_module or is_folder else str(node.module))
    own = {name for name in found if name.split(".")[0] == "matchyard"}
    return {name.removeprefix("matchyard.").replace(".", "/") for name in own}


def is_within(module: str, layer: str) -> bool:
    return module == layer or module.startswith(f"{layer}/")


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_every_module_imports_only_from_layers_below(file: Path) -> None:
    module = module_of(file)
    if module in ("__init__", "engines"):  # they hold no code of their own
        return
    layer = next((layer for layer in LAYERS if is_within(module, layer)), None)
    assert layer is not None, f"{module} is new: give it a line in LAYERS"
    allowed = (*LAYERS[layer], layer)
    for name in imported(file):
        assert any(is_within(name, other) for other in allowed), f"{module} imports {name}"


def test_the_layer_rule_sees_a_wrong_import(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from matchyard import TagIndex, storage\nimport matchyard.engines.tags.encoder\n"
    )
    assert imported(file) == {"matchyard", "storage", "engines/tags/encoder"}
    file.write_text("from matchyard import read_options")
    with pytest.raises(AssertionError, match="not public"):
        imported(file)


@pytest.mark.parametrize("name", my.ENGINES)
def test_every_engine_has_the_same_rooms(name: str) -> None:
    rooms = {entry.stem for entry in (SOURCES / "engines" / name).glob("[!_]*")}
    assert rooms - {"xml"} == {"language", "oracle", "encoder", "workload", "algorithms"}
    engine = find_engine(name)
    entries = {entry.stem for entry in (SOURCES / "engines" / name / "algorithms").glob("[!_]*")}
    assert entries - {"shared"} == set(engine.algorithms)
    assert engine.default in engine.algorithms
    for part, names in {
        "language": ["parse", "parse_event", "format", "Subscription", "Event"],
        "oracle": ["is_match", "explain"],
        "encoder": [name for name in (*vars(Encoder), *Encoder.__annotations__) if name[0] != "_"],
        "workload": ["generate", "Workload", "MODELS"],
    }.items():  # fmt: skip
        assert [one for one in names if not hasattr(getattr(engine, part), one)] == []


def test_no_engine_folder_is_left_out() -> None:
    folders = {entry.name for entry in (SOURCES / "engines").iterdir() if entry.is_dir()}
    assert folders - {"__pycache__"} == set(my.ENGINES)


CONTRACT = [name for name in vars(Algorithm) if not name.startswith("_")]
ALGORITHMS = [(name, one) for name in my.ENGINES for one in find_engine(name).algorithms]


@pytest.mark.parametrize(("engine", "algorithm"), ALGORITHMS)
def test_every_algorithm_fulfils_the_contract(engine: str, algorithm: str) -> None:
    module: Any = find_algorithm(find_engine(engine), algorithm)
    functions = {
        "check", "inspect", "compile", "workspace", "match", "subscriptions", "estimate",
    }  # fmt: skip
    assert functions == set(CONTRACT)
    assert [one for one in functions if not callable(getattr(module, one, None))] == []
    assert "cpu" in module.DEVICES
    assert module.Options() == module.Options(*module.Options._field_defaults.values())
    assert module.Table._fields[-4:] == ("key_start", "keys", "removed_keys", "removed_at")


@pytest.mark.parametrize("name", my.ENGINES)
def test_the_definition_of_a_match_fits_on_a_screen(name: str) -> None:
    is_match = find_engine(name).oracle.is_match
    assert len(Path(is_match.__code__.co_filename).read_text().splitlines()) < 60


def test_the_public_names_are_these() -> None:
    assert my.__all__ == EXPORTED
    assert all(hasattr(my, name) for name in EXPORTED)


@pytest.mark.parametrize("name", [name for name in EXPORTED if callable(getattr(my, name))])
def test_every_public_name_is_documented(name: str) -> None:
    assert (getattr(my, name).__doc__ or "").strip()
    for member, value in vars(getattr(my, name)).items():
        if callable(value) and not member.startswith("_"):
            assert value.__doc__, f"{name}.{member}"


def test_the_bare_import_loads_no_heavy_package() -> None:
    heavy = [
        "pyspark", "cupy", "matplotlib", "pandas", "polars", "duckdb", "scipy.sparse", "starlette",
    ]  # fmt: skip
    code = f"import sys, matchyard; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_code_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, block in enumerate(blocks):
        if "matchyard.spark" not in block:  # that is run by tests/spark/test_docs.py
            exec(compile(block, f"README.md, block {number + 1}", "exec"), namespace)
    assert text.count("```python") == len(blocks)


@pytest.mark.parametrize("file", sorted(Path(__file__).parent.rglob("*.py")), ids=lambda f: f.stem)
def test_test_files_stay_short_and_their_names_are_sentences(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") < 300
    for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE):
        assert name.count("_") >= 3, name
