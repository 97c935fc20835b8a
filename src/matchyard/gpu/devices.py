"""Where matching runs: on the CPU, or on a GPU through CuPy.

A GPU algorithm is a module NAME_gpu beside NAME, with kernels in NAME.cu. It has `LAUNCH`, how many
events make a launch worth its while, `workspace` and `match`; everything else is that of NAME. The
arrays of a table are copied to the card once, however many threads match (`kept`); each thread has a
stream of its own. Which card that is, is decided elsewhere (`placement`): a thread is put on it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple

from matchyard.errors import DeviceError

DEVICES = ("cpu", "gpu", "auto")
_FOR_TABLES = 0.8
_LEAST_ROOM = 1 << 30  # for "auto" to take a card
_log = logging.getLogger("matchyard.device")


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
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        raise DeviceError(
            "CuPy finds a GPU, but not NVRTC, with which kernels are compiled: install the CUDA "
            f"Toolkit, or pip install 'cupy-cuda12x[ctk]' (or 13x): {error}"
        ) from error
    return cupy


def kind_of(device: str) -> str:
    """What a device is by its name: one of `DEVICES`; a DeviceError where it is none.

    >>> kind_of("gpu:0,1")
    'gpu'
    """
    kind, colon, cards = str(device).partition(":")
    names_cards = kind == "gpu" and all(number.isdecimal() for number in cards.split(","))
    if not isinstance(device, str) or kind not in DEVICES or (colon and not names_cards):
        raise DeviceError(
            f"no device {device!r}; expected 'cpu', 'gpu', 'auto', or cards such as 'gpu:0,1'"
        )
    return kind


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
        self._before, self._card_before = here(), _turn_to(self._place.number)
        _used.place = self._place

    def __exit__(self, *_: object) -> None:
        _used.place = self._before
        if self._card_before != self._place.number:  # else nothing is asked, which could fail
            _turn_to(self._card_before)


def _turn_to(number: int) -> int:
    """Use a card from now on; returns which one was used before, be it by others than us."""
    runtime = the_cupy().cuda.runtime
    with guarded(f"turning to card {number}"):
        before: int = runtime.getDevice()
        if before != number:
            runtime.setDevice(number)
    _turned_to.add(number)
    return before


def room(place: Place) -> int:
    """Bytes of a card that tables may take: some is for batches, and what other processes have is
    not ours."""
    with on(place):
        ours = card().free_bytes + int(the_cupy().get_default_memory_pool().total_bytes())
        return int(_FOR_TABLES * ours) // place.n_parts


def forget_memory() -> None:
    """Give memory that nothing is in back to the cards. One that has failed gives nothing back."""
    cupy = the_cupy()
    for number in sorted(_turned_to):  # a card that nobody used would be taken into use
        with suppress(DeviceError), guarded("giving memory back"), cupy.cuda.Device(number):
            cupy.get_default_memory_pool().free_all_blocks()


def forget_host_memory() -> None:
    """Give memory back that copies were fast with and that nobody has."""
    with suppress(DeviceError), guarded("giving memory of the host back"):
        the_cupy().get_default_pinned_memory_pool().free_all_blocks()


def report() -> str:
    """Which GPU there is, or why there is none, in one line."""
    try:
        return str(card())
    except DeviceError as error:
        return str(error)


def pick(device: str, runs_on: tuple[str, ...], what: str) -> str:
    """The device that a name stands for: "auto" is a GPU where there is one that `what` runs on, and
    that has room."""
    kind = kind_of(device)
    if kind == "auto":
        reason = f"{what} runs on the CPU alone"
        if "gpu" in runs_on:
            try:
                if room(_FIRST) >= _LEAST_ROOM:
                    _log.info("%s runs on %s", what, card())
                    return "gpu"
                reason = f"too little memory: {card()}"
            except DeviceError as error:
                reason = str(error)
        _log.info("%s runs on the CPU: %s", what, reason)
        return "cpu"
    if kind not in runs_on:
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
