"""The part of HEM's matching that its Figure 3 is about: marks that are made one by one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import njit

from matchyard.engines.predicates.algorithms import _ends, _intervals, hem


def mark(index: Any, events: Any) -> tuple[int, float]:
    """How many marks an index of `hem` makes for the events, and in how many seconds."""
    engine = index._settings.engine
    (segment,) = index.segments()
    (table,) = segment.tables
    batch = segment.encode(engine.encoder.column(events, index._settings.reading))
    batch = _intervals.accept(table, batch, "hem")
    options = segment.settings.options
    covers = hem._covers(options)
    start = time.perf_counter()
    n_marks = _mark(table, batch, options.n_cells, covers)
    return n_marks, time.perf_counter() - start


@njit(nogil=True, cache=True)
def _mark(table, batch, n_cells, covers):
    """As `hem.match`, without bitsets, comparisons and results."""
    n_attributes = len(table.lowest)
    bits = np.zeros_like(table.gone)
    codes = np.empty(n_attributes, np.int64)
    is_present = np.empty(n_attributes, np.bool_)
    chosen = np.empty(2 * n_attributes, np.int64)
    left = np.empty((n_attributes, 2, 2), np.int64)
    n_marks = 0
    for event in range(len(batch.event_start) - 1):
        _intervals.read(batch, event, table.attribute_of, codes, is_present)
        hem._rule_out(table, codes, is_present, n_cells, covers, chosen, left)
        for attribute in range(n_attributes):
            for end in range(2):
                first, stop = left[attribute, end]
                n_marks += _ends.mark_cells(table, first, stop, bits)
    return n_marks
