"""The lane of a thread on a card: its CUDA stream and its buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.gpu.devices import guarded, the_cupy


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
