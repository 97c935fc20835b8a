"""Compile the CUDA kernels of a launcher at the first request for one of them.

The launcher `NAME/gpu.py` has its kernels in `NAME/NAME.cu`; a launcher `NAME_gpu.py` has them in `NAME.cu`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from matchyard.gpu.devices import guarded, here, the_cupy

_KERNELS = Path(__file__).parents[1] / "kernels"


def kernel_file(launcher: Path) -> Path:
    """The .cu file of a launcher.

    >>> kernel_file(Path("tiles/gpu.py")).as_posix(), kernel_file(Path("shared/signed_sets_gpu.py")).name
    ('tiles/tiles.cu', 'signed_sets.cu')
    """
    name = launcher.parent.name if launcher.stem == "gpu" else launcher.stem.removesuffix("_gpu")
    return launcher.with_name(f"{name}.cu")


def kernel_source(path: Path) -> str:
    """The text of a .cu file, with each file that it includes inserted once.

    An included file stands beside the .cu file, in `shared` beside its folder, or in `matchyard/kernels`.
    CuPy caches compiled kernels by this text, so a change in an included file compiles them again.
    """
    folders = (path.parent, path.parent.parent / "shared", _KERNELS)
    return _with_included(path, folders, set())


def _with_included(path: Path, folders: tuple[Path, ...], seen: set[str]) -> str:
    lines = []
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if not line.startswith("#include"):
            lines.append(line)
        elif (name := line.split('"')[1]) not in seen:
            seen.add(name)
            included = next(
                (folder / name for folder in folders if (folder / name).exists()), _KERNELS / name
            )
            lines.append(_with_included(included, folders, seen))
    return "".join(lines)


@cache
def _module(path: Path, constants: tuple[tuple[str, int], ...], card_number: int) -> Any:
    options = ("--std=c++17", *(f"-D{name}={value}" for name, value in constants))
    return the_cupy().RawModule(code=kernel_source(path), options=options, name_expressions=None)


@cache
def _function(
    launcher: str, name: str, constants: tuple[tuple[str, int], ...], card_number: int
) -> Any:
    path = kernel_file(Path(launcher))
    with guarded(f"compiling {path.name}"):
        return _module(path, constants, card_number).get_function(name)


def kernel(launcher: str, name: str, constants: Mapping[str, int] | None = None) -> Any:
    """A kernel of a launcher's .cu file, compiled once per card. `constants` become macros."""
    return _function(launcher, name, tuple(sorted((constants or {}).items())), here().number)
