"""Blocks of large files: each is checked before its first use.

Beside a large file NAME lies NAME.blocks: words of 64 bits, little-endian. The first word is the size of a block in
bytes. The others are the XXH64 of each block. The manifest lists both files, with their own checksums.

Nothing here needs a lock. A block that two threads want at the same time is checked twice, or once by either. It is
marked only after its check, and its bytes never change.
"""

from __future__ import annotations

import mmap
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import StorageError
from matchyard.kernels.hashing import first_bad, hash_blocks, mark_blocks, xxh64

BLOCK_BYTES = 1 << 20  # of the files that are written here; smaller files have no blocks
BLOCKS = ".blocks"  # how the names of side files end
_MOST_BYTES = 1 << 40  # of a block, whatever a forged file says
_WORD = np.dtype("<u8")
_STRETCH = 256  # blocks that are read ahead and checked together; Ctrl-C waits for no more
_turns = count()


def fast_checksum(data: NDArray[np.uint8]) -> str:
    """The XXH64 of a file, in hexadecimal digits."""
    return f"{int(xxh64(data, 0, len(data))):016x}"


def is_large(size_bytes: int) -> bool:
    """True if a file of this size gets checksums of its blocks."""
    return size_bytes > BLOCK_BYTES


def sums_of(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The content of the side file of a file with these bytes."""
    words = np.empty(1 - (-len(data) // BLOCK_BYTES), _WORD)
    words[0] = BLOCK_BYTES
    hash_blocks(data, BLOCK_BYTES, words[1:])
    return words


class Blocks:
    """The blocks of a file, and which of them are checked."""

    def __init__(self, path: str, data: NDArray[np.uint8], sums: NDArray[np.uint8]) -> None:
        self._path, self._data, self._map = path, data, _map_under(data)
        words = sums.view(_WORD) if len(sums) % _WORD.itemsize == 0 else np.empty(0, _WORD)
        self._n_bytes = int(words[0]) if len(words) else 0
        is_size = 0 < self._n_bytes <= _MOST_BYTES
        if not is_size or len(words) != 1 - (-len(data) // self._n_bytes):
            raise StorageError(f"{path}{BLOCKS} is damaged: it is not for {len(data)} bytes")
        self._sums = words[1:].astype(np.uint64)
        self._is_checked = np.zeros(len(self._sums), np.bool_)
        self.is_done = False

    def check(self) -> None:
        """Check the whole file."""
        if not self.is_done:
            self._check(np.flatnonzero(~self._is_checked))
            self.is_done = True

    def check_ends(self) -> None:
        """Check the first and the last block. They have the header, and the ends of offsets."""
        self._check(np.array([0, len(self._sums) - 1][: len(self._sums)]))

    def check_items(
        self, array: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> None:
        """Check the items from `low` to `high` - 1 of the array that ends the file, for each pair of these."""
        if self.is_done:
            return
        first, width = len(self._data) - array.nbytes, array.itemsize
        wanted = np.zeros(len(self._sums), np.bool_)
        mark_blocks(first + width * low, first + width * high, self._n_bytes, wanted)
        self._check(np.flatnonzero(wanted & ~self._is_checked))

    def _check(self, blocks: NDArray[np.int64]) -> None:
        firsts = range(0, len(blocks), _STRETCH)
        # Of two threads that check a file at once, one begins at its end.
        for first in firsts if next(_turns) % 2 else reversed(firsts):
            some = blocks[first : first + _STRETCH]
            self._read_ahead(some)
            bad = first_bad(self._data, self._n_bytes, self._sums, self._is_checked, some)
            if bad >= 0:
                self._refuse(int(bad))

    def _read_ahead(self, blocks: NDArray[np.int64]) -> None:
        """Let the system read blocks at once. At page faults it reads small pieces, one after the other: eight
        times as slow from a cold disk."""
        if self._map is None or not len(blocks):
            return
        breaks = np.flatnonzero(np.diff(blocks) > 1) + 1
        for run in np.split(blocks, breaks):
            start = int(run[0]) * self._n_bytes // mmap.PAGESIZE * mmap.PAGESIZE
            end = min(len(self._data), (int(run[-1]) + 1) * self._n_bytes)
            self._map.madvise(mmap.MADV_WILLNEED, start, end - start)

    def _refuse(self, block: int) -> None:
        start = block * self._n_bytes
        end = min(start + self._n_bytes, len(self._data))
        found = fast_checksum(self._data[start:end])
        raise StorageError(
            f"{self._path} is damaged: the XXH64 of block {block} (bytes {start} to {end - 1}) is {found}, "
            f"expected {int(self._sums[block]):016x}"
        )


def _map_under(data: NDArray[np.uint8]) -> mmap.mmap | None:
    """The mapping that an array shows; None if the array is in memory."""
    base: Any = data.base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, mmap.mmap) else None
