"""Events as flat attributes: the common form of JSON text, dicts and tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUMBER, TEXT, FALSE, TRUE, NULL = 0, 1, 2, 3, 4  # types of values
SLOW = 5  # in the scanner: a number that Python has to read
VALUES = "events"

# Columns of attributes: the bits of the double that is not above a number, or where a text starts;
# name << 32 | the number of an element of an array of objects, or 0;
# size << 8 | type, the size being what the double leaves of an integer, or the bytes of a text.
VALUE, WHERE, WHAT = 0, 1, 2


class Column(NamedTuple):
    """Many events: their values with dotted names, in the order of the events."""

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
        """The number of events."""
        return len(self.row_start) - 1

    @property
    def kind(self) -> str:
        """The kind of the column: events."""
        return VALUES

    def rows(self, start: int, stop: int) -> Column:
        """Some consecutive events; they share all arrays but the offsets."""
        return self._replace(row_start=self.row_start[start : stop + 1])
