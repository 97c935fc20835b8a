"""List all kernels, compile them without a card, and read the record of the last run on a card."""

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
LAYOUTS = (  # modules besides the launchers that prepare data for kernels
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
    """The files of launchers, and their modules."""
    found = [*SOURCES.glob("engines/*/algorithms/*/*gpu.py"), *SOURCES.glob("gpu/*_gpu.py")]
    for path in sorted(found):
        module: Any = import_module(
            ".".join(("matchyard", *path.with_suffix("").relative_to(SOURCES).parts))
        )
        if hasattr(module, "VARIANTS"):
            yield path, module


def kernels() -> list[Kernel]:
    """All variants of all kernels."""
    return [
        Kernel(kernel_file(path), constants)
        for path, module in launchers()
        for constants in module.VARIANTS
    ]


def hashes() -> dict[str, str]:
    """The SHA-256 of every file that affects the code on a card."""
    files = [
        SOURCES / name
        for name in (
            "gpu/compilation.py",
            "gpu/devices.py",
            "gpu/lanes.py",
            "gpu/pinned.py",
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
    """The record of the last full run on a card."""
    verified: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    return verified


def _nvrtc() -> Any:
    """NVIDIA's compiler, from its Python package or from an installed CUDA."""
    try:
        import nvidia.cuda_nvrtc as package
    except ImportError:
        return ctypes.CDLL(ctypes.util.find_library("nvrtc"))
    (folder,) = package.__path__
    return ctypes.CDLL(str(next(Path(folder, "lib").glob("libnvrtc.so.*"))))


def compiled(kernel: Kernel, architecture: str) -> tuple[bool, str]:
    """Compile a kernel with NVRTC: (True if it compiles, the compiler's log)."""
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
