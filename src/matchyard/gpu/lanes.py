"""The lane of a thread on a card: its CUDA stream and its buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.gpu.devices import guarded, the_cupy
from matchyard.gpu.pinned import pinned

_LARGE = 1 << 20  # bytes; smaller pieces are CuPy's


class Lane:
    """A CUDA stream of one thread, with buffers that grow to the size of the largest batch."""

    def __init__(self) -> None:
        self.cupy = the_cupy()
        self._runtime = self.cupy.cuda.runtime
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self._buffers: dict[str, Any] = {}
        self._staged: dict[str, tuple[NDArray[np.int64], int]] = {}  # words, address

    def empty(self, name: str, size: int, kind: Any) -> Any:
        """An uninitialised array on the card; calls with the same name share a buffer."""
        held = self._buffers.get(name)
        if held is None or len(held) < size or held.dtype != kind:
            self._buffers.pop(name, None)
            held = None  # frees the old buffer before the larger one is allocated
            with guarded(f"a batch, which needs room for {size:,} values"):
                held = self._buffers[name] = self.cupy.empty(max(16, size + size // 4), kind)
        return held[:size]

    def send(self, name: str, array: NDArray[Any]) -> Any:
        """Copy an array to the card."""
        there = self.empty(name, array.size, array.dtype)
        there.set(np.ascontiguousarray(array).ravel(), stream=self.stream)
        return there if array.size else self.empty(name, 1, array.dtype)

    def send_end_to_end(self, there: Any, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy arrays to the card one after the other; do not change them before the CUDA stream is done."""
        to = int(there.data.ptr)
        for array in arrays:
            self._runtime.memcpyAsync(
                to,
                array.ctypes.data,
                array.nbytes,
                self._runtime.memcpyHostToDevice,
                self.stream.ptr,
            )
            to += array.nbytes

    def fetch(self, there: Any) -> NDArray[Any]:
        """Copy an array from the card into pinned memory, which copies fast, or what else there is."""
        here: NDArray[Any] | None = None
        if there.nbytes >= _LARGE:
            here = pinned.lend(there.size, there.dtype)
            here = np.empty(there.shape, there.dtype) if here is None else here.reshape(there.shape)
        else:
            import cupyx

            here = cupyx.empty_pinned(there.shape, there.dtype)
        self.fetch_into(here, there)
        return here

    def fetch_into(self, here: NDArray[Any], there: Any) -> None:
        """Copy an array from the card into one of the host, and wait for it."""
        if there.size:
            there.get(stream=self.stream, out=here)
        self.stream.synchronize()

    def staged(self, name: str, n_words: int) -> NDArray[np.int64]:
        """Uninitialised words of pinned memory; calls with the same name share them.

        The address is kept beside them, because NumPy takes a microsecond to return it.
        """
        held = self._staged.get(name)
        if held is None or len(held[0]) < n_words:
            import cupyx

            self.stream.synchronize()  # an interrupted launch may still write to the old words
            words = cupyx.empty_pinned(n_words + n_words // 4 + 64, np.int64)
            held = self._staged[name] = words, words.ctypes.data
        return held[0]

    def address_of(self, name: str) -> int:
        """The address of staged words. Kernels can read and write there; the host sees their writes
        after it has synchronised with the CUDA stream."""
        return self._staged[name][1]

    def send_staged(self, name: str, there: Any) -> None:
        """Copy staged words to the card; do not change them before the CUDA stream is done."""
        self._runtime.memcpyAsync(
            there.data.ptr, self._staged[name][1], there.nbytes,
            self._runtime.memcpyHostToDevice, self.stream.ptr,
        )  # fmt: skip

    def fetch_staged(self, name: str, there: Any) -> NDArray[Any]:
        """Copy an array from the card into staged words, valid until the next use of the name."""
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
        """Start a kernel on the current CUDA stream, which callers set with `with lane.stream`."""
        if n_blocks:
            function((n_blocks,), (n_threads,), args, shared_mem=shared)
