"""One event as bytes for a kernel, which finds the ids of its tags.

{"jazz", "live"}  ──▶  b"jazz\\0live\\0"
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.encoder.intake import PLAIN, Options, fold
from matchyard.engines.tags.language import parse_event
from matchyard.errors import ParseError
from matchyard.kernels.growing import put
from matchyard.kernels.strings import BLOCK, find_block

_MOST_TAGS, _MOST_BYTES = 512, 8192  # of an event; larger ones are left to a batch


class Reader:
    """Reads events one at a time."""

    def __init__(self, options: Options) -> None:
        self._options, self._folds = options, bool(options.casefold or options.normalize)
        self._most = min(options.max_tags, _MOST_TAGS)

    def read(self, event: Any) -> bytes | None:
        """The tags of an event, each with a zero byte after it; None if a batch has to read the event,
        which refuses bad ones."""
        if type(event) is str:
            event = event.split()
        elif type(event) not in PLAIN:
            return None
        n_tags = len(event)
        if n_tags > self._most:
            return None
        try:
            if self._folds:
                event = fold(parse_event(event), self._options)
                n_tags = len(event)
            text = "\0".join((*event, ""))
            data = text.encode()
        except (TypeError, UnicodeEncodeError, ParseError):
            return None
        return data if len(data) <= _MOST_BYTES and text.count("\0") == n_tags else None


class Room(NamedTuple):
    """The buffers of one event."""

    text: NDArray[np.uint8]
    text_start: NDArray[np.int64]
    codes: NDArray[np.uint64]
    ids: NDArray[np.int64]
    tag_start: NDArray[np.int64]  # [2]
    tags: NDArray[np.int32]


def new_room() -> Room:
    """Buffers for any event that `Reader` reads."""
    return Room(
        np.empty(_MOST_BYTES, np.uint8), np.zeros(_MOST_TAGS + 1, np.int64),
        np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64),
        np.zeros(2, np.int64), np.empty(_MOST_TAGS, np.int32),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def encode_one(names, data, room):
    """Write the ids of the tags that a vocabulary has to `room.tags`; returns how many there are."""
    text, text_start, tags, ids = room.text, room.text_start, room.tags, room.ids
    n_tags, n_bytes, start = 0, 0, 0
    for i in range(len(data)):
        if data[i] == 0:
            put(text, n_bytes, data, start, i)
            n_bytes += i - start
            start = i + 1
            n_tags += 1
            text_start[n_tags] = n_bytes
    n_known = 0
    for first in range(0, n_tags, BLOCK):
        n_block = find_block(names, text, text_start[: n_tags + 1], first, room.codes, ids)
        for i in range(n_block):
            if ids[i] >= 0:
                tags[n_known] = ids[i]
                n_known += 1
    room.tag_start[1] = n_known
    return n_known
