"""One document to signals, within a kernel: the steps of `scanner.py` for a single document.

Documents that take more are left to a batch: declarations, other encodings, more room; and bad documents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.encoder.scanner.document import Lookups, Room, Settings, scan_document
from matchyard.engines.twigs.encoder.scanner.prolog import find_root
from matchyard.engines.twigs.encoder.scanner.references import (
    N_EXPANDED,
    N_REFERENCES,
    N_SIGNALS,
    Declared,
)
from matchyard.engines.twigs.encoder.scanner.scanner import lookups_of, new_room, settings_of
from matchyard.engines.twigs.language.options import SKIP, Options

MOST_BYTES = 1 << 16  # of a document
_SKIPS = len(Settings._fields)  # in `Given.settings`: undefined entities are skipped


class Reading(NamedTuple):
    """A vocabulary and settings for `encode_one`."""

    lookups: Lookups
    settings: NDArray[np.int64]  # as in `Settings`, and at _SKIPS: undefined entities are skipped


class Buffers(NamedTuple):
    """Memory for one document at a time. Its caches of names are for one vocabulary."""

    room: Room
    declared: Declared  # no entities
    signals: NDArray[np.int32]


def reading(vocabulary: Vocabulary, options: Options) -> Reading:
    """What `encode_one` needs to know of a vocabulary."""
    settings = settings_of(vocabulary, options, 0)
    skips = options.undefined_entities == SKIP
    return Reading(lookups_of(vocabulary), np.array([*settings, skips], np.int64))


def new_buffers(options: Options) -> Buffers:
    """Memory for documents that `Reader` reads."""
    settings = Settings(options.max_depth, 0, options.max_value_hits, True, True, True)
    none, nowhere = np.zeros(1, np.int64), np.zeros(0, np.int64)
    no_text = np.zeros(0, np.uint8)
    no_text.flags.writeable = False
    return Buffers(
        new_room(settings, MOST_BYTES, 0),
        Declared(np.zeros(2, np.int64), none, none, np.zeros(0, np.bool_), nowhere, no_text),
        np.empty(MOST_BYTES, np.int32),
    )


@njit(cache=True)
def encode_one(text, reading, buffers):
    """Write the signals of a document to `buffers.signals`; returns (their number, the depth of the document,
    or less than 0 if it has to be matched as a batch)."""
    position, is_alone, _ = find_root(text, 0, len(text))
    if position < 0:
        return np.int64(0), np.int64(-1)
    values, state = reading.settings, buffers.room.state
    settings = Settings(
        values[0], values[1], values[2], values[3] != 0, values[4] != 0, values[5] != 0
    )
    skips = values[_SKIPS] != 0 and not is_alone
    state[N_SIGNALS] = state[N_EXPANDED] = state[N_REFERENCES] = 0
    depth = scan_document(
        text, position, len(text), 0, skips, reading.lookups, buffers.declared, settings,
        buffers.room, buffers.signals,
    )  # fmt: skip
    if state[N_REFERENCES] > 0:
        depth = np.int64(-1)
    return state[N_SIGNALS], depth
