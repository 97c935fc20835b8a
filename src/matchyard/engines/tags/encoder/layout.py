"""The arrays of encoded tag sets: the encoder makes them, the algorithms read them.

The vocabulary numbers tags by falling frequency: 0 is the most frequent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.csr import take_rows
from matchyard.kernels.strings import Names

Vocabulary = Names


class Batch(NamedTuple):
    """Encoded subscriptions or events."""

    tag_start: NDArray[np.int64]  # [n_rows + 1] offsets into tags
    tags: NDArray[np.int32]  # ids in the order of input, without unknown tags
    signatures: NDArray[np.uint64]  # [n_rows, n_words] Bloom signatures of all tags, if asked for

    @property
    def n_rows(self) -> int:
        """The number of sets."""
        return len(self.tag_start) - 1

    def rows(self, start: int, stop: int) -> Batch:
        """Some consecutive rows, without copying the tags."""
        return Batch(self.tag_start[start : stop + 1], self.tags, self.signatures[start:stop])

    def take(self, rows: NDArray[np.int64]) -> Batch:
        """A copy of some sets, in the given order."""
        tag_start, tags = take_rows(self.tag_start, self.tags, rows)
        return Batch(tag_start, tags, self.signatures[rows])
