"""Machine code of kernels in files: of this machine's cache, and shipped with the package.

A kernel is compiled once for each signature and kind of CPU, and saved with everything that it calls.
The folder is the one that Numba would take: `NUMBA_CACHE_DIR`, or `__pycache__` beside the module, or
the user's cache. A wheel for a platform has such files too, for a few levels of CPUs, in `compiled/`.

A file is machine code. It is read from these folders alone, and it is used only if all that it was
made from is unchanged: the versions of Python, Numba and llvmlite, the signature, and the source of the
kernel's module and of all modules of this package which that module imports.

    file = SHA-256 of (sources, payload) | payload: Numba's pickle of (signature, compiled kernel)
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba import cloudpickle
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from matchyard.kernels.compiler.levels import host_levels
from matchyard.kernels.compiler.linking import is_kernel, mark_as_loaded
from matchyard.kernels.compiler.notice import compiled, compiling

SHIPPED = Path(__file__).parents[2] / "compiled"  # a folder for each level; in wheels of a platform
_FORMAT = 4  # raise it when the files change
_DIGEST = 32  # bytes
_IMPORT = re.compile(rb"^(?:from|import) (matchyard[\w.]*)", re.MULTILINE)


class CodeCache(_Cache):  # type: ignore[misc]
    """The machine code of one kernel, for all signatures."""

    def __init__(self, function: Any) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        """The folder in which new machine code is saved."""
        return str(_folder(self._function))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load a kernel. None: Numba is to compile it."""
        if not is_kernel():
            return None
        context.refresh()
        stamp = _sources(self._function.__module__)
        for folder, cpu in _places(self._function, context):
            payload = _read(folder / _name(self._function, signature, cpu), stamp)
            if payload is not None:
                saved, parts = cloudpickle.loads(payload)
                if saved == signature:
                    kernel = CompileResult._rebuild(context, *parts)
                    mark_as_loaded(kernel)
                    return kernel
        compiling(self._function)
        return None

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Save a compiled kernel, if there is a folder to write to."""
        if not is_kernel():
            return
        compiled()
        folder, cpu = _places(self._function, kernel.target_context)[-1]
        payload = dumps((signature, _parts(kernel)))
        _write(
            folder / _name(self._function, signature, cpu),
            _digest(_sources(self._function.__module__), payload) + payload,
        )

    def enable(self) -> None:
        """Numba asks for it; this cache is always enabled."""

    def disable(self) -> None:
        """Numba asks for it; this cache is always enabled."""

    def flush(self) -> None:
        """Numba asks for it. Files of changed sources are never used, and are replaced."""


def _parts(kernel: Any) -> tuple[Any, ...]:
    """What Numba saves of a kernel, without its listing and without the code for linking it."""
    library, *others = kernel._replace(type_annotation="")._reduce()
    name, kind, (machine_code, _) = library
    callable_names = (kernel.fndesc.llvm_cpython_wrapper_name,)
    stub = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in callable_names)
    return ((name, kind, (machine_code, binding.parse_assembly(stub).as_bitcode())), *others)


def _places(function: Any, context: Any) -> list[tuple[Path, str]]:
    """Folders with machine code of a function and the kind of CPU it is for; the last is for new code."""
    if Target.folder is not None:
        return [(Target.folder, Target.level)]
    shipped = [(SHIPPED / level, level) for level in _shipped_levels()]
    return [*shipped, (_folder(function), repr(context.codegen().magic_tuple()))]


class Target:
    """Where to save machine code instead of this machine's cache, to ship it."""

    folder: Path | None = None
    level = ""


@functools.cache
def _shipped_levels() -> tuple[str, ...]:
    if config.CPU_NAME is not None or not SHIPPED.is_dir():
        return ()
    return tuple(level for level in host_levels() if (SHIPPED / level).is_dir())


def _folder(function: Any) -> Path:
    try:
        return Path(CompileResultCacheImpl(function).locator.get_cache_path())
    except RuntimeError:  # nothing can be written anywhere
        return Path(os.devnull)


def _name(function: Any, signature: Any, cpu: str) -> str:
    settings = (config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT)
    versions = (_FORMAT, numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
    purpose = repr((str(signature), cpu, settings, versions)).encode()
    key = hashlib.sha256(purpose).hexdigest()[:16]
    return f"{function.__module__.removeprefix('matchyard.')}.{function.__qualname__}.{key}.nbc"


@functools.cache
def _sources(module: str) -> bytes:
    """The digest of the sources of a module and of all modules of this package that it imports."""
    sources = {name: _source(name) for name in sorted(_with_imports(module))}
    return hashlib.sha256(b"".join(b"%d " % len(text) + text for text in sources.values())).digest()


def _with_imports(module: str) -> set[str]:
    found: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name not in found and name in sys.modules:
            found.add(name)
            ahead.extend(_imports(name))
    return found


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    named = [name.decode() for name in _IMPORT.findall(_source(module))]
    if hasattr(sys.modules[module], "__path__"):  # it also has the modules that others imported
        return tuple(named)
    values = vars(sys.modules[module]).values()
    modules = [value.__name__ for value in values if isinstance(value, ModuleType)]
    return tuple({*named, *(name for name in modules if name.startswith("matchyard."))})


@functools.cache
def _source(module: str) -> bytes:
    known: Any = sys.modules[module]
    data: bytes = known.__spec__.loader.get_data(known.__spec__.origin)
    return data


def _digest(stamp: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(stamp + payload).digest()


def _read(path: Path, stamp: bytes) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    payload = data[_DIGEST:]
    return payload if data[:_DIGEST] == _digest(stamp, payload) else None


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step: other processes read the old file or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, passing = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            os.replace(passing, path)
        except BaseException:
            os.unlink(passing)
            raise
    except OSError:  # no room, or not allowed: the next process compiles again
        return
