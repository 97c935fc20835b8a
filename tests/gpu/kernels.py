"""The kernels there are, compiled without a GPU, and the record of the last run on one."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.gpu.compilation import kernel_file, kernel_source

SOURCES = Path(import_module("matchyard").__file__ or "").parent
LAYOUTS = (  # what kernels read, where a launcher does not make it itself
    "engines/predicates/algorithms/counting/gpu_layout.py",
    "engines/predicates/algorithms/counting/gpu_single_event.py",
    "engines/predicates/algorithms/tiles/gpu_layout.py",
    "engines/tags/algorithms/shared/small_batch_gpu.py",
    "engines/tags/algorithms/shared/sorted_pairs_gpu.py",
    "engines/twigs/algorithms/stacks/gpu_packing.py",
)
RECORD = Path(__file__).with_name("verified.json")


class Kernel(NamedTuple):
    """A .cu file with one set of constants."""

    path: Path
    constants: Mapping[str, int]

    def __str__(self) -> str:
        given = ",".join(f"{name}={value}" for name, value in self.constants.items())
        return f"{self.path.stem}[{given}]"


def launchers() -> Iterator[tuple[Path, Any]]:
    """The modules that launch kernels, and their files."""
    for path in sorted(SOURCES.glob("engines/*/algorithms/*/*gpu.py")):
        module: Any = import_module(
            ".".join(("matchyard", *path.with_suffix("").relative_to(SOURCES).parts))
        )
        if hasattr(module, "VARIANTS"):
            yield path, module


def kernels() -> list[Kernel]:
    """All that a launcher may ask for."""
    return [
        Kernel(kernel_file(path), constants)
        for path, module in launchers()
        for constants in module.VARIANTS
    ]


def hashes() -> dict[str, str]:
    """SHA-256 of everything that decides what runs on a GPU."""
    files = [
        SOURCES / name
        for name in (
            "gpu/compilation.py",
            "gpu/devices.py",
            "gpu/lanes.py",
            "gpu/resident.py",
            *LAYOUTS,
        )
    ]
    files += [path for kind in ("cu", "cuh") for path in SOURCES.rglob(f"*.{kind}")]
    files += [path for path, _ in launchers()]
    return {
        path.relative_to(SOURCES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
    }


def record() -> dict[str, Any]:
    """What the last full run on a GPU said."""
    found: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    return found


def _nvrtc() -> Any:
    """NVIDIA's compiler: a package of its own, or that of an installed CUDA."""
    try:
        import nvidia.cuda_nvrtc as package
    except ImportError:
        return ctypes.CDLL(ctypes.util.find_library("nvrtc"))
    (folder,) = package.__path__
    return ctypes.CDLL(str(next(Path(folder, "lib").glob("libnvrtc.so.*"))))


def compiled(kernel: Kernel, architecture: str) -> tuple[bool, str]:
    """Does NVRTC take it, and what it says."""
    library = _nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source, name = kernel_source(kernel.path).encode(), kernel.path.name.encode()
    library.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None)
    given = [f"--gpu-architecture={architecture}", "--std=c++17"]
    given += [f"-D{name}={value}" for name, value in kernel.constants.items()]
    options = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    failed = library.nvrtcCompileProgram(program, len(given), options)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    said = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, said)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return failed == 0, said.value.decode()
