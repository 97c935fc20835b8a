"""Where matching runs: on the CPU, or on a GPU through CuPy.

A GPU algorithm is a module NAME_gpu beside NAME, with kernels in NAME.cu. It has `LAUNCH`, how many
events make a launch worth its while, `workspace` and `match`; everything else is that of NAME. The
arrays of a table are copied to the card once, however many threads match (`on_card`); each thread
has a stream of its own.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import DeviceError

DEVICES = ("cpu", "gpu", "auto")
_log = logging.getLogger(__name__)


class Card(NamedTuple):
    """A GPU that can be used."""

    name: str
    total_bytes: int
    free_bytes: int

    def __str__(self) -> str:
        free, total = self.free_bytes / 2**30, self.total_bytes / 2**30
        return f"{self.name}, {free:.1f} of {total:.1f} GiB free"


@cache
def _cupy() -> Any:
    """CuPy, if it is installed and finds a card; a DeviceError that says what is missing."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "a GPU needs CuPy, which is not installed: pip install 'matchyard[gpu]'"
        ) from error
    try:
        n_cards = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # the runtime has a kind of its own for each thing that is missing
        raise DeviceError(f"CuPy finds no GPU: {error}") from error
    if n_cards == 0:
        raise DeviceError("CuPy finds no GPU")
    return cupy


def card() -> Card:
    """The GPU that is used; a DeviceError that says why there is none."""
    cupy = _cupy()
    with guarded("asking the GPU how it is"):
        free, total = cupy.cuda.runtime.memGetInfo()
        found = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return Card(found["name"].decode(), total, free)


def report() -> str:
    """Which GPU there is, or why there is none, in one line."""
    try:
        return str(card())
    except DeviceError as error:
        return str(error)


def pick(device: str, runs_on: tuple[str, ...], what: str) -> str:
    """The device that a name stands for: "auto" is a GPU where there is one that `what` runs on."""
    if device == "auto":
        reason = f"{what} runs on the CPU alone"
        if "gpu" in runs_on:
            try:
                _log.info("%s runs on %s", what, card())
                return "gpu"
            except DeviceError as error:
                reason = str(error)
        _log.info("%s runs on the CPU: %s", what, reason)
        return "cpu"
    if device not in runs_on:
        raise DeviceError(
            f"{what} does not run on device {device!r}; it runs on: {', '.join(runs_on)}"
        )
    if device == "gpu":
        _cupy()
    return device


@cache
def _faults() -> tuple[type[Exception], ...]:
    """What CuPy raises; the first is for too little memory."""
    from cupy.cuda import driver, memory, runtime
    from cupy.cuda.compiler import CompileException

    return (
        memory.OutOfMemoryError,
        runtime.CUDARuntimeError,
        driver.CUDADriverError,
        CompileException,
    )


class guarded:
    """What goes wrong on the card becomes a DeviceError that says what was being done."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        if kind is None or not issubclass(kind, _faults()):
            return
        if issubclass(kind, _faults()[0]):
            raise DeviceError(
                f"the GPU has too little memory for {self._doing}: {error}"
            ) from error
        raise DeviceError(f"the GPU failed at {self._doing}: {error}") from error


def owner_of(array: NDArray[Any]) -> NDArray[Any]:
    """The array that has the memory, of which there are several views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Copies:
    """Arrays that are on a card. They are never changed, so one copy serves all threads; it goes when
    the array goes."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, int, int, bool], Any] = {}
        self._lock = threading.Lock()

    def of(self, array: NDArray[Any], narrow: bool = False) -> Any:
        """The copy of an array, made when first asked for; with `narrow` in 32 bits if all of its
        values fit into these."""
        owner = owner_of(array)
        place = id(owner), array.ctypes.data, array.nbytes, narrow
        with self._lock:
            found = self._copies.get(place)
            if found is None:
                cupy = _cupy()
                given = _narrowed(array) if narrow else array
                with guarded(f"a copy of {given.nbytes:,} bytes of the index"):
                    found = cupy.asarray(given) if given.size else cupy.zeros(1, given.dtype)
                    cupy.cuda.get_current_stream().synchronize()
                self._copies[place] = found
                weakref.finalize(owner, self._copies.pop, place, None)
            return found


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        return array
    return array.astype(np.int32)


_copies = Copies()


def on_card(array: NDArray[Any]) -> Any:
    """The copy on the card of an array that nobody changes. An empty one has an element there, so
    that it has an address."""
    return _copies.of(array)


def keys_on_card(keys: NDArray[np.int64]) -> Any:
    """The copy on the card of the keys of a table: 32 bits each where all of them fit, since it is
    the way back over the bus that takes most of the time of a match with many keys."""
    return _copies.of(keys, narrow=True)


@cache
def _module(path: Path, constants: tuple[tuple[str, int], ...]) -> Any:
    options = ("--std=c++17", *(f"-D{name}={value}" for name, value in constants))
    return _cupy().RawModule(code=path.read_text("utf-8"), options=options, name_expressions=None)


def kernel(beside: str, name: str, constants: Mapping[str, int] | None = None) -> Any:
    """A kernel of the .cu file beside a module NAME_gpu, compiled once. `constants` become macros."""
    path = Path(beside)
    path = path.with_name(path.stem.removesuffix("_gpu") + ".cu")
    with guarded(f"compiling {path.name}"):
        return _module(path, tuple(sorted((constants or {}).items()))).get_function(name)


class Lane:
    """A stream of one thread, with memory that grows to what the largest batch needed."""

    def __init__(self) -> None:
        self.cupy = _cupy()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self._buffers: dict[str, Any] = {}

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

    def launch(
        self, function: Any, n_blocks: int, n_threads: int, *args: Any, shared: int = 0
    ) -> None:
        """Run a kernel on this stream."""
        if n_blocks:
            function((n_blocks,), (n_threads,), args, shared_mem=shared)
