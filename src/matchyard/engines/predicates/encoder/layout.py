"""The arrays that the encoder makes and every algorithm reads.

A *slot* is an attribute name together with one way to read its values. A *piece* says "a value in
this slot has a code between low and high". A constraint is a union of pieces, and an event is a
list of entries (slot, code).

    kind of slot              codes                                     used by
    PRESENT                   0                                         exists
    NUMBER                    in numeric order, see `Mode`              = != < <= > >= in
    OTHER                     false 0, true 1, null 2                   = !=
    TEXT                      in order of code points, see below        = != < <= > >= in, prefix
    REVERSED                  the same of the text read backwards       suffix
    FOLDED, FOLDED_REVERSED   the same of the case-folded text          … that ignore case
    ADDRESS                   the same of an IP address written in hex  cidr
    PATTERN, FOLDED_PATTERN   one per pattern that the text satisfies   contains, wildcard

Texts are coded against all texts that constraints name, in order: 2 i + 1 for the i-th
text, 2 i for a text just before it. If constraints only ask a slot for equality, all texts that no
constraint names have the code -1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.csr import take_rows
from matchyard.kernels.strings import Names

LOWEST = int(np.iinfo(np.int64).min)  # a piece without a lower bound…
HIGHEST = int(np.iinfo(np.int64).max)  # …and one without an upper
NUMBER, TEXT, FALSE, TRUE, NULL = 0, 1, 2, 3, 4  # types of values
SLOW = 5  # in the scanner: a number that Python has to read
VALUES = "events"

# Columns of attributes: the bits of the double that is not above a number, or where a text starts;
# name << 32 | the number of an element of an array of objects, or 0;
# size << 8 | type, the size being what the double leaves of an integer, or the bytes of a text.
VALUE, WHERE, WHAT = 0, 1, 2


class Kind(IntEnum):
    """How a slot reads the values of its attribute."""

    PRESENT = 0
    NUMBER = 1
    OTHER = 2
    TEXT = 3
    REVERSED = 4
    FOLDED = 5
    FOLDED_REVERSED = 6
    ADDRESS = 7
    PATTERN = 8
    FOLDED_PATTERN = 9


class Mode(IntEnum):
    """How a slot codes numbers. Codes compare exactly as the numbers do."""

    INTEGER = 0  # all constants are integers up to 2^61: 2 x, or 2 floor(x) + 1 between integers
    FLOAT = 1  # all constants are at most 2^53 in size: the bits of a double, put in order
    RANKED = 2  # anything else: 2 i + 1 for the i-th constant, 2 i for a number just before it


class Vocabulary(NamedTuple):
    """The names, texts and slots that turn attributes into entries."""

    names: Names  # attribute names, dotted where they reach into objects
    texts: Names  # every text that a constraint names, as its slot reads it; ids are in byte order
    slot_start: NDArray[np.int32]  # [n_names + 1] slots of each name, in order of kind
    kind: NDArray[np.uint8]  # [n_slots] `Kind`
    mode: NDArray[np.uint8]  # [n_slots] `Mode` of NUMBER; of texts: is order asked for?
    domain_start: NDArray[np.int64]  # [n_slots + 1] of RANKED numbers and of patterns
    domain: NDArray[np.float64]  # RANKED: the constant rounded down to a double…
    domain_rest: NDArray[np.int64]  # …and what is left of it; patterns: `texts` id << 2 | flags
    gram_slots: NDArray[np.int64]  # an index over the patterns; see `pattern_index`
    gram_patterns: NDArray[np.int32]

    @property
    def n_names(self) -> int:
        """The number of attribute names."""
        return self.names.n_names

    @property
    def n_slots(self) -> int:
        """The number of slots."""
        return len(self.kind)


class Filters(NamedTuple):
    """Encoded subscriptions: predicates as disjunctions of filters.

    A filter matches an event if its group 0 holds and no other group holds: those are negated. A
    group holds if all its constraints do, in one element if they reach into one array of objects.
    """

    row_start: NDArray[np.int64]  # [n_rows + 1] filters of each predicate
    filter_start: NDArray[np.int64]  # [n_filters + 1] constraints of each filter, by group
    piece_start: NDArray[np.int64]  # [n_constraints + 1] pieces of each constraint, at least one
    groups: NDArray[np.int16]  # [n_constraints]
    slots: NDArray[np.int32]  # [n_pieces] ascending within a constraint
    low: NDArray[np.int64]  # [n_pieces] codes, both ends included
    high: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """The number of predicates."""
        return len(self.row_start) - 1

    def rows(self, start: int, stop: int) -> Filters:
        """Some consecutive predicates, without a copy of their filters."""
        return self._replace(row_start=self.row_start[start : stop + 1])

    def take(self, rows: NDArray[np.int64]) -> Filters:
        """A copy of some predicates, in the given order."""
        row_start, chosen = take_rows(self.row_start, np.arange(len(self.filter_start) - 1), rows)
        return self.take_filters(row_start, chosen)

    def take_filters(self, row_start: NDArray[np.int64], chosen: NDArray[np.int64]) -> Filters:
        """A copy of some filters, in the given order, as predicates with the given offsets."""
        filter_start, constraints = take_rows(
            self.filter_start, np.arange(len(self.piece_start) - 1), chosen
        )
        piece_start, pieces = take_rows(self.piece_start, np.arange(len(self.slots)), constraints)
        return Filters(
            row_start, filter_start, piece_start, self.groups[constraints],
            self.slots[pieces], self.low[pieces], self.high[pieces],
        )  # fmt: skip


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


class Batch(NamedTuple):
    """Encoded events. An attribute has as many entries as values, in arrays more than one."""

    event_start: NDArray[np.int64]  # [n_events + 1] offsets into the entries
    slots: NDArray[np.int32]  # ascending within an event
    codes: NDArray[np.int64]
    elements: NDArray[np.int32]  # the element of an array of objects that has the entry; 0 for none
    element_parent: NDArray[np.int32]  # [n_elements] the element that contains it, 0 for none
    element_array: NDArray[np.int32]  # [n_elements] the number of its array

    @property
    def n_rows(self) -> int:
        """The number of events."""
        return len(self.event_start) - 1
