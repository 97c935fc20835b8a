"""Events as flat attributes, whatever form they came in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUMBER, TEXT, FALSE, TRUE, NULL = 0, 1, 2, 3, 4  # types of values
SLOW = 5  # while scanning: a number that Python is to read
VALUES = "events"

# Columns of attributes: the bits of the double that is not above a number, or where a text starts;
# name << 32 | the number of an element of an array of objects, or 0;
# size << 8 | type, the size being what the double leaves of an integer, or the bytes of a text.
VALUE, WHERE, WHAT = 0, 1, 2


class Column(NamedTuple):
    """Many events: their values, each with its dotted name, in the order they stand in."""

    row_start: NDArray[np.int64]  # [n_rows + 1] offsets into the attributes
    attributes: NDArray[np.int64]  # [n_attributes, 3] columns below
    name_start: NDArray[np.int64]  # [n_names + 1] names, or their last parts; may be there twice
    name_parent: NDArray[np.int64]  # [n_names] the name before the dot, if there is one, or -1
    name_text: NDArray[np.uint8]
    text: NDArray[np.uint8]  # UTF-8 of the texts, among other things; read-only
    element_parent: NDArray[np.int32]  # [n_elements] as in `Batch`
    element_array: NDArray[np.int32]  # [n_elements]

    @property
    def n_rows(self) -> int:
        """How many events there are."""
        return len(self.row_start) - 1

    @property
    def kind(self) -> str:
        """What this is a column of."""
        return VALUES

    def rows(self, start: int, stop: int) -> Column:
        """Some consecutive events; all but the offsets is shared."""
        return self._replace(row_start=self.row_start[start : stop + 1])
