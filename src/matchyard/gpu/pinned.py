"""Pinned memory of the host, into which a card copies at the speed of the bus.

Pinning fresh memory takes longer than filling it, so what is given back is lent again. Pinned memory cannot
be swapped out: there is at most a share of the machine's memory, and whoever asks for more gets none.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import DeviceError
from matchyard.gpu.devices import guarded, the_cupy
from matchyard.threads.forks import start_fresh_in_child

_SHARE = 16  # of the machine's memory: one part in so many
_LEAST = 1 << 20  # bytes of a block
_STEPS = 4  # sizes of blocks between two powers of two


class _Block(NamedTuple):
    """A piece of pinned memory."""

    memory: Any  # frees itself
    address: int
    n_bytes: int


class PinnedMemory:
    """Blocks of pinned memory, lent as arrays."""

    def __init__(self, most: int) -> None:
        self.most = most  # bytes, lent and free
        self._start_fresh()
        start_fresh_in_child(self)

    def _start_fresh(self) -> None:
        """Begin anew: a forked child can neither use nor free the blocks of its parent."""
        self._of_parent = getattr(self, "_free", None)  # kept, so that it is not freed
        self._lock = threading.Lock()
        self._free: list[_Block] = []
        self._places: dict[int, int] = {}  # bytes by address, of all blocks

    def lend(self, n_values: int, kind: Any) -> NDArray[Any] | None:
        """An uninitialised array, whose memory is lent again when it is gone; None if there is no more."""
        n_bytes = n_values * np.dtype(kind).itemsize
        with self._lock:
            block = self._fitting(n_bytes) or self._made(n_bytes)
        if block is None:
            return None
        lent: Any = (ctypes.c_char * block.n_bytes).from_address(block.address)
        # Appending takes no lock: the garbage collector may call this anywhere.
        weakref.finalize(lent, self._free.append, block).atexit = False
        array: NDArray[Any] = np.frombuffer(lent, kind, n_values)
        return array

    def has(self, array: NDArray[Any]) -> bool:
        """True if an array lies in a block."""
        at = array.ctypes.data
        return any(
            start <= at and at + array.nbytes <= start + n_bytes
            for start, n_bytes in list(self._places.items())
        )

    def forget(self) -> None:
        """Give the free blocks back to the system."""
        with self._lock:
            while self._free:
                del self._places[self._free.pop().address]

    def _fitting(self, n_bytes: int) -> _Block | None:
        fitting = [
            one for one in list(self._free) if n_bytes <= one.n_bytes <= 2 * n_bytes + _LEAST
        ]
        if not fitting:
            return None
        block = min(fitting, key=lambda one: one.n_bytes)
        self._free.remove(block)
        return block

    def _made(self, n_bytes: int) -> _Block | None:
        size = rounded(n_bytes)
        while self._free and sum(self._places.values()) + size > self.most:
            del self._places[self._free.pop(0).address]
        if sum(self._places.values()) + size > self.most:
            return None
        with suppress(DeviceError), guarded("pinning memory of the host"):
            memory = the_cupy().cuda.PinnedMemory(size)
            block = _Block(memory, memory.ptr, size)
            self._places[block.address] = size
            return block
        return None


def rounded(n_bytes: int) -> int:
    """The size of the block for so many bytes: few sizes, so that blocks fit again.

    >>> rounded(1), rounded(5 << 20), rounded((5 << 20) + 1)
    (1048576, 5242880, 6291456)
    """
    step = max(_LEAST, 1 << max(0, (n_bytes - 1).bit_length() - 1)) // _STEPS
    return max(_LEAST, -(-n_bytes // step) * step)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


pinned = PinnedMemory(_memory_bytes() // _SHARE)
