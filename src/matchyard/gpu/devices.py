"""Where matching runs: on the CPU, or on a card through CuPy.

The launcher of an algorithm is the module `gpu` in its folder. It has `LAUNCH` (the events that a
card gets at a time), `workspace` and `match`; the CPU algorithm has everything else. `resident`
copies the arrays of a table to a card once, for all threads. `lanes` gives each thread its own CUDA
stream. `index.placement` chooses the card of a thread and sets it with `on`.
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


class CardState(NamedTuple):
    """The name and the memory of a GPU."""

    name: str
    total_bytes: int
    free_bytes: int

    def __str__(self) -> str:
        free, total = self.free_bytes / 2**30, self.total_bytes / 2**30
        return f"{self.name}, {free:.1f} of {total:.1f} GiB free"


@cache
def the_cupy() -> Any:
    """CuPy, or a DeviceError if CuPy, a card or NVRTC is missing."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "a GPU needs CuPy, which is not installed: pip install 'matchyard[gpu]'"
        ) from error
    try:
        n_cards = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # the type depends on the missing part of CUDA
        raise DeviceError(f"CuPy finds no GPU: {error}") from error
    if n_cards == 0:
        raise DeviceError("CuPy finds no GPU")
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        raise DeviceError(
            "CuPy finds a GPU, but not NVRTC, the compiler of kernels: install the CUDA Toolkit, "
            f"or pip install 'cupy-cuda12x[ctk]' (or 13x): {error}"
        ) from error
    return cupy


def kind_of(device: str) -> str:
    """The kind of a named device, one of `DEVICES`; a DeviceError if the name is not valid.

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


def card_state() -> CardState:
    """The card of this thread; a DeviceError with the reason if there is none."""
    cupy = the_cupy()
    with guarded("reading the properties of the GPU"):
        free, total = cupy.cuda.runtime.memGetInfo()
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return CardState(properties["name"].decode(), total, free)


class Card(NamedTuple):
    """A card, or one part of a card that a device names several times: "gpu:0,0" has two."""

    number: int  # of the card
    part: int
    n_parts: int


def cards(device: str) -> tuple[Card, ...]:
    """The cards that a device such as "gpu:0,1" names; a DeviceError if one does not exist."""
    _, _, given = device.partition(":")
    numbers = [int(number) for number in given.split(",")] if given else [0]
    n_cards = the_cupy().cuda.runtime.getDeviceCount()
    if max(numbers) >= n_cards:
        raise DeviceError(
            f"device {device!r}: there is no card {max(numbers)}, but {n_cards} cards"
        )
    return tuple(
        Card(number, numbers[:i].count(number), numbers.count(number))
        for i, number in enumerate(numbers)
    )


_FIRST = Card(0, 0, 1)
_used = threading.local()
_turned_to = {_FIRST.number}  # cards that some thread has used


def here() -> Card:
    """The card that this thread uses."""
    card: Card = getattr(_used, "card", _FIRST)
    return card


class on:
    """Use a card in this thread until the end of the `with` block."""

    def __init__(self, card: Card) -> None:
        self._card = card

    def __enter__(self) -> None:
        self._before, self._card_before = here(), _turn_to(self._card.number)
        _used.card = self._card

    def __exit__(self, *_: object) -> None:
        _used.card = self._before
        if self._card_before != self._card.number:  # avoids a call that could fail
            _turn_to(self._card_before)


def _turn_to(number: int) -> int:
    """Switch to a card; returns the current card before, even if other code had chosen it."""
    runtime = the_cupy().cuda.runtime
    with guarded(f"turning to card {number}"):
        before: int = runtime.getDevice()
        if before != number:
            runtime.setDevice(number)
    _turned_to.add(number)
    return before


def room(card: Card) -> int:
    """Bytes of a card for tables: a share of the memory that other processes leave us."""
    with on(card):
        ours = card_state().free_bytes + int(the_cupy().get_default_memory_pool().total_bytes())
        return int(_FOR_TABLES * ours) // card.n_parts


def forget_memory() -> None:
    """Give unused memory of CuPy's pools back to the cards; skip cards that fail."""
    cupy = the_cupy()
    for number in sorted(_turned_to):  # a call on an unused card would initialise it
        with suppress(DeviceError), guarded("giving memory back"), cupy.cuda.Device(number):
            cupy.get_default_memory_pool().free_all_blocks()


def forget_host_memory() -> None:
    """Give unused pinned memory of CuPy back to the host; `gpu.pinned` has the larger pieces."""
    with suppress(DeviceError), guarded("giving memory of the host back"):
        the_cupy().get_default_pinned_memory_pool().free_all_blocks()


def report() -> str:
    """One line about the card, or the reason why there is none."""
    try:
        return str(card_state())
    except DeviceError as error:
        return str(error)


def pick(device: str, runs_on: tuple[str, ...], what: str) -> str:
    """The device to use: "auto" becomes "gpu" if `what` runs there and the card has memory left."""
    kind = kind_of(device)
    if kind == "auto":
        reason = f"{what} runs on the CPU alone"
        if "gpu" in runs_on:
            try:
                if room(_FIRST) >= _LEAST_ROOM:
                    _log.info("%s runs on %s", what, card_state())
                    return "gpu"
                reason = f"too little memory: {card_state()}"
            except DeviceError as error:
                reason = str(error)
        _log.info("%s runs on the CPU: %s", what, reason)
        return "cpu"
    if kind not in runs_on:
        raise DeviceError(
            f"{what} does not run on device {device!r}; it runs on: {', '.join(runs_on)}"
        )
    if is_gpu(device):
        cards(device)
    return device


def is_gpu(device: str) -> bool:
    """True if a device that `pick` returned is a GPU."""
    return device.partition(":")[0] == "gpu"


@cache
def _faults() -> tuple[type[Exception], ...]:
    """The exceptions of CuPy; the first one means too little memory."""
    from cupy.cuda import driver, memory, runtime
    from cupy.cuda.compiler import CompileException

    return (
        memory.OutOfMemoryError,
        runtime.CUDARuntimeError,
        driver.CUDADriverError,
        CompileException,
    )


class guarded:
    """Turn an exception of CuPy into a DeviceError that names the failed step."""

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
    """Bytes that this process uses on the card, for arrays of indexes and buffers of threads."""
    return int(the_cupy().get_default_memory_pool().used_bytes())
