"""What is not yet checked of a saved table: its files are checked before an event needs them.

An algorithm may say which rows an event leads to (`Abilities.rows_read`). Then only the groups of these rows are
checked, and the arrays that are not ordered by rows. For other algorithms, and for every other look at a table,
the whole table is checked first (`Segment.tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels import csr
from matchyard.storage.blocks import Blocks


class Unchecked:
    """The files of one table that are not all checked. Threads share it without locks: see `storage.blocks`."""

    def __init__(
        self,
        table: Any,
        files: Mapping[str, Blocks],
        key_names: Iterable[Blocks],
        rows_read: Callable[[Any, Any], tuple[Any, Any]] | None,
        by_row: Mapping[str, str],
    ) -> None:
        self._table, self._rows_read = table, rows_read
        self._by_row = {name: by_row[name] for name in by_row if name in files}
        self._files = files
        self._whole = [*key_names, *(files[name] for name in files if name not in by_row)]
        self.groups = csr.no_groups(len(table.key_start) - 1)  # True: checked
        self.is_done = False

    def check(self) -> None:
        """Check all files."""
        if not self.is_done:
            self._check_whole()
            for file in self._files.values():
                file.check()
            self.groups[:] = True
            self.is_done = True

    def check_for(self, batch: Any) -> None:
        """Check what a match of a batch reads."""
        if self.is_done:
            return
        if self._rows_read is None:
            self.check()
            return
        self.check_unordered()
        low, high = self._rows_read(self._table, batch)
        wanted = np.zeros(len(self.groups), np.bool_)
        n_rows = csr.mark_groups(low, high, wanted)
        self._check_groups(np.flatnonzero(wanted & ~self.groups))
        key_start = self._table.key_start
        n_keys = np.sum(key_start[high] - key_start[low], dtype=np.int64)
        # More matches than rows or keys: then the result may be made in a pass over the whole key table.
        if n_rows >= len(key_start) - 1 or n_keys >= key_start[-1]:
            self.check()

    def check_rows(self, rows: NDArray[np.int64]) -> None:
        """Check what decoding some rows reads."""
        if self.is_done:
            return
        if self._rows_read is None:
            self.check()
            return
        self.check_unordered()
        wanted = np.zeros(len(self.groups), np.bool_)
        wanted[rows >> csr.GROUP_BITS] = True
        self._check_groups(np.flatnonzero(wanted & ~self.groups))

    def check_unordered(self) -> None:
        """Check the arrays that are not ordered by rows, and the names of keys."""
        if self._whole:
            self._check_whole()

    def _check_whole(self) -> None:
        for file in self._whole:
            file.check()
        self._whole = []

    def _check_groups(self, groups: NDArray[np.int64]) -> None:
        """Check the rows of some groups in every array that is ordered by rows."""
        if not len(groups):
            return
        low = groups << csr.GROUP_BITS
        high = np.minimum((groups + 1) << csr.GROUP_BITS, len(self._table.key_start) - 1)
        for name, offsets in self._by_row.items():  # offsets come before what they lead to
            array = getattr(self._table, name)
            if offsets:
                start = getattr(self._table, offsets)
                first, end = start[low].astype(np.int64), start[high].astype(np.int64)
                self._files[name].check_items(array, first, end)
            else:  # the row after the last one, too, if the array has it: it ends the offsets of the last row
                self._files[name].check_items(array, low, np.minimum(high + 1, len(array)))
        self.groups[groups] = True
