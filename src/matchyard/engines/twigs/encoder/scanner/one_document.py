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


class Given(NamedTuple):
    """What `encode_one` takes besides the document."""

    lookups: Lookups
    room: Room
    declared: Declared  # no entities
    settings: NDArray[
        np.int64
    ]  # [_SKIPS + 1] as in `Settings`, then: undefined entities are skipped
    signals: NDArray[np.int32]


def given(vocabulary: Vocabulary, options: Options) -> Given:
    """The vocabulary and buffers for `encode_one`."""
    settings = settings_of(vocabulary, options, 0)
    none, nowhere = np.zeros(1, np.int64), np.zeros(0, np.int64)
    no_text = np.zeros(0, np.uint8)
    no_text.flags.writeable = False
    return Given(
        lookups_of(vocabulary),
        new_room(settings, MOST_BYTES, 0),
        Declared(np.zeros(2, np.int64), none, none, np.zeros(0, np.bool_), nowhere, no_text),
        np.array([*settings, options.undefined_entities == SKIP], np.int64),
        np.empty(MOST_BYTES, np.int32),
    )


@njit(cache=True)
def encode_one(text, given):
    """Write the signals of a document to `given.signals`; returns (their number, the depth of the document,
    or less than 0 if it has to be matched as a batch)."""
    position, is_alone, _ = find_root(text, 0, len(text))
    if position < 0:
        return np.int64(0), np.int64(-1)
    values, state = given.settings, given.room.state
    settings = Settings(
        values[0], values[1], values[2], values[3] != 0, values[4] != 0, values[5] != 0
    )
    skips = values[_SKIPS] != 0 and not is_alone
    state[N_SIGNALS] = state[N_EXPANDED] = state[N_REFERENCES] = 0
    depth = scan_document(
        text, position, len(text), 0, skips, given.lookups, given.declared, settings, given.room,
        given.signals,
    )  # fmt: skip
    if state[N_REFERENCES] > 0:
        depth = np.int64(-1)
    return state[N_SIGNALS], depth
