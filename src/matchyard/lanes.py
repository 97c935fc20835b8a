"""What a thread needs to match on a card: kernels, and a lane to launch them in.

Kernels are in .cu files beside the modules that launch them, and compiled when first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.device import guarded, here, the_cupy

_SHARED_KERNELS = Path(__file__).with_name("kernels")


def kernel_source(path: Path) -> str:
    """The text of a .cu file with that of the files it includes, each once: from beside it, or from
    `kernels`. CuPy keeps what it compiled by this text, and so sees when one of them changes."""
    return _with_included(path, path.parent, set())


def _with_included(path: Path, folder: Path, seen: set[str]) -> str:
    lines = []
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if not line.startswith("#include"):
            lines.append(line)
        elif (name := line.split('"')[1]) not in seen:
            seen.add(name)
            beside = folder / name
            found = beside if beside.exists() else _SHARED_KERNELS / name
            lines.append(_with_included(found, folder, seen))
    return "".join(lines)


@cache
def _module(path: Path, constants: tuple[tuple[str, int], ...], card_number: int) -> Any:
    options = ("--std=c++17", *(f"-D{name}={value}" for name, value in constants))
    return the_cupy().RawModule(code=kernel_source(path), options=options, name_expressions=None)


@cache
def _function(
    beside: str, name: str, constants: tuple[tuple[str, int], ...], card_number: int
) -> Any:
    path = Path(beside)
    path = path.with_name(path.stem.removesuffix("_gpu") + ".cu")
    with guarded(f"compiling {path.name}"):
        return _module(path, constants, card_number).get_function(name)


def kernel(beside: str, name: str, constants: Mapping[str, int] | None = None) -> Any:
    """A kernel of the .cu file beside a module NAME_gpu, compiled once. `constants` become macros."""
    return _function(beside, name, tuple(sorted((constants or {}).items())), here().number)


class Lane:
    """A stream of one thread, with memory that grows to what the largest batch needed."""

    def __init__(self) -> None:
        self.cupy = the_cupy()
        self._runtime = self.cupy.cuda.runtime
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self._buffers: dict[str, Any] = {}
        self._staged: dict[str, tuple[NDArray[np.int64], int]] = {}  # and where they are

    def empty(self, name: str, size: int, kind: Any) -> Any:
        """Room on the card for that many values, whatever is in it; that of the same name is used
        again."""
        held = self._buffers.get(name)
        if held is None or len(held) < size or held.dtype != kind:
            self._buffers.pop(name, None)
            held = None  # so that it is free before there is a larger one
            with guarded(f"a batch, which needs room for {size:,} values"):
                held = self._buffers[name] = self.cupy.empty(max(16, size + size // 4), kind)
        return held[:size]

    def send(self, name: str, array: NDArray[Any]) -> Any:
        """A copy of an array on the card."""
        there = self.empty(name, array.size, array.dtype)
        there.set(np.ascontiguousarray(array).ravel(), stream=self.stream)
        return there if array.size else self.empty(name, 1, array.dtype)

    def fetch(self, there: Any) -> NDArray[Any]:
        """A copy of an array from the card, in memory that copies go to fast."""
        import cupyx

        here: NDArray[Any] = cupyx.empty_pinned(there.shape, there.dtype)
        if there.size:
            there.get(stream=self.stream, out=here)
        self.stream.synchronize()
        return here

    def staged(self, name: str, n_words: int) -> NDArray[np.int64]:
        """Words of the host's memory that copies are fast with, whatever is in them; those of the same
        name are used again. Their address is kept, since it takes a microsecond to ask for it."""
        held = self._staged.get(name)
        if held is None or len(held[0]) < n_words:
            import cupyx

            self.stream.synchronize()  # a launch that was interrupted may still write to the old ones
            words = cupyx.empty_pinned(n_words + n_words // 4 + 64, np.int64)
            held = self._staged[name] = words, words.ctypes.data
        return held[0]

    def address_of(self, name: str) -> int:
        """Where the staged words of that name are. Kernels can read and write there; what they wrote
        is to be seen when the stream is done."""
        return self._staged[name][1]

    def send_staged(self, name: str, there: Any) -> None:
        """Copy the staged words of that name to the card; they must stay until the stream is done."""
        self._runtime.memcpyAsync(
            there.data.ptr, self._staged[name][1], there.nbytes,
            self._runtime.memcpyHostToDevice, self.stream.ptr,
        )  # fmt: skip

    def fetch_staged(self, name: str, there: Any) -> NDArray[Any]:
        """A copy of an array from the card, good until the next of that name."""
        words = self.staged(name, -(-there.nbytes // 8))
        self._runtime.memcpyAsync(
            self._staged[name][1], there.data.ptr, there.nbytes,
            self._runtime.memcpyDeviceToHost, self.stream.ptr,
        )  # fmt: skip
        self.stream.synchronize()
        here: NDArray[Any] = words.view(there.dtype)[: there.size]
        return here

    def launch(
        self, function: Any, n_blocks: int, n_threads: int, *args: Any, shared: int = 0
    ) -> None:
        """Run a kernel on this stream."""
        if n_blocks:
            function((n_blocks,), (n_threads,), args, shared_mem=shared)
