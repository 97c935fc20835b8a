"""Where matching runs: on the CPU, or on a GPU through CuPy.

A GPU algorithm is a module NAME_gpu beside NAME, with kernels in NAME.cu. It has `LAUNCH`, how many
events make a launch worth its while, `workspace` and `match`; everything else is that of NAME. The
arrays of a table are copied to the card once, however many threads match (`kept`); each thread has a
stream of its own. Which card that is, is decided elsewhere (`placement`): a thread is put on it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import DeviceError

DEVICES = ("cpu", "gpu", "auto")
_FOR_TABLES = 0.8
_SHARED_KERNELS = Path(__file__).with_name("kernels")
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
def the_cupy() -> Any:
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
    """The GPU that is used here; a DeviceError that says why there is none."""
    cupy = the_cupy()
    with guarded("asking the GPU how it is"):
        free, total = cupy.cuda.runtime.memGetInfo()
        found = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return Card(found["name"].decode(), total, free)


class Place(NamedTuple):
    """A card, or a part of one that is named several times: "gpu:0,0" has two places."""

    number: int  # of the card
    part: int
    n_parts: int


def places(device: str) -> tuple[Place, ...]:
    """The cards that "gpu" or "gpu:0,1" stand for; a DeviceError where there is no such card."""
    _, _, given = device.partition(":")
    if not all(number.isdecimal() for number in given.split(",")) and given:
        raise DeviceError(f"device {device!r} does not name cards; expected such as 'gpu:0,1'")
    numbers = [int(number) for number in given.split(",")] if given else [0]
    n_cards = the_cupy().cuda.runtime.getDeviceCount()
    if max(numbers) >= n_cards:
        raise DeviceError(
            f"device {device!r}: there is no card {max(numbers)}, but {n_cards} cards"
        )
    return tuple(
        Place(number, numbers[:i].count(number), numbers.count(number))
        for i, number in enumerate(numbers)
    )


_FIRST = Place(0, 0, 1)
_used = threading.local()
_turned_to = {_FIRST.number}  # cards that some thread has used


def here() -> Place:
    """The card that this thread uses."""
    found: Place = getattr(_used, "place", _FIRST)
    return found


class on:
    """What is done inside is done on that card."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._before = here()
        _use(self._place)

    def __exit__(self, *_: object) -> None:
        _use(self._before)


def _use(place: Place) -> None:
    if place.number != here().number:
        with guarded(f"turning to card {place.number}"):
            the_cupy().cuda.runtime.setDevice(place.number)
    _used.place = place
    _turned_to.add(place.number)


def room(place: Place) -> int:
    """Bytes of a card that tables may take; the rest is for batches."""
    with on(place):
        return int(_FOR_TABLES * card().total_bytes) // place.n_parts


def forget_memory() -> None:
    """Give memory that nothing is in back to the cards. One that has failed gives nothing back."""
    cupy = the_cupy()
    for number in sorted(_turned_to):  # a card that nobody used would be taken into use
        with suppress(DeviceError), guarded("giving memory back"), cupy.cuda.Device(number):
            cupy.get_default_memory_pool().free_all_blocks()


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
    if device.partition(":")[0] not in runs_on:
        raise DeviceError(
            f"{what} does not run on device {device!r}; it runs on: {', '.join(runs_on)}"
        )
    if is_gpu(device):
        places(device)
    return device


def is_gpu(device: str) -> bool:
    """Is it one that `pick` picked which is not the CPU?"""
    return device.partition(":")[0] == "gpu"


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


def used_bytes() -> int:
    """What this process has on the card, in arrays of indexes and buffers of threads."""
    return int(the_cupy().get_default_memory_pool().used_bytes())


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


def kernel(beside: str, name: str, constants: Mapping[str, int] | None = None) -> Any:
    """A kernel of the .cu file beside a module NAME_gpu, compiled once. `constants` become macros."""
    path = Path(beside)
    path = path.with_name(path.stem.removesuffix("_gpu") + ".cu")
    given = tuple(sorted((constants or {}).items()))
    with guarded(f"compiling {path.name}"):
        return _module(path, given, here().number).get_function(name)


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

            words = cupyx.empty_pinned(n_words + n_words // 4 + 64, np.int64)
            held = self._staged[name] = words, words.ctypes.data
        return held[0]

    def upload(self, name: str, there: Any) -> None:
        """Copy the staged words of that name to the card; they must stay until the stream is done."""
        self._runtime.memcpyAsync(
            there.data.ptr, self._staged[name][1], there.nbytes,
            self._runtime.memcpyHostToDevice, self.stream.ptr,
        )  # fmt: skip

    def download(self, name: str, there: Any) -> NDArray[Any]:
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
