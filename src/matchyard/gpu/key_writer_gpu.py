"""Write the keys of rows with a card, where the host would take longer.

A match returns rows where each has many keys (decision 0042). Who reads the keys has both: the rows in the
host's memory, and a writer. The writer sends the rows to the card, which has the keys, and the keys come back over
the bus into pinned memory. The host writes them itself if that is faster at this moment: the bus serves one
thread at a time, and every thread of the host can write. Both rates are measured as keys are written.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import DeviceError
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded, here, on
from matchyard.gpu.lanes import Lane
from matchyard.gpu.pinned import pinned
from matchyard.gpu.resident import kept, keys_on_card, on_card
from matchyard.threads.forks import start_fresh_in_child

_LEAST = 1 << 16  # keys: fewer take the host as long as the launches
_STEP = 1 << 24  # keys that are on the card at a time
_WARPS = 8  # per block
_EACH = 1024  # keys that a warp writes
_MEASURED = 1 << 20  # bytes: shorter times say little
_NEWEST = 0.25  # the share of the newest measurement in a rate
VARIANTS = tuple(
    {"WARPS": _WARPS, "EACH": _EACH, "KEY_BITS": key_bits, "OUT_BITS": out_bits}
    for key_bits, out_bits in ((32, 32), (32, 64), (64, 64))
)
_log = logging.getLogger("matchyard")


class Rows(Protocol):
    """Rows of some events, and the offsets of their keys; see `Hits` in `parts`."""

    @property
    def start(self) -> NDArray[np.int64]:
        """Offsets of each event's rows."""

    @property
    def rows(self) -> NDArray[np.int32]:
        """Row numbers."""

    @property
    def key_start(self) -> NDArray[np.int64]:
        """Offsets of each event's keys."""


class Rates:
    """Bytes of keys per second, of the bus and of one thread of the host; and what waits for the bus."""

    def __init__(self) -> None:
        self.bus, self.host = 4e10, 5e9
        self._start_fresh()
        start_fresh_in_child(self)

    def _start_fresh(self) -> None:
        self._lock = threading.Lock()
        self._queued = 0

    def takes_bus(self, n_bytes: int) -> bool:
        """True if the bus would have sent so many bytes before this thread could write them; they are then queued."""
        with self._lock:
            is_faster = (self._queued + n_bytes) * self.host < n_bytes * self.bus
            self._queued += n_bytes if is_faster else 0
            return is_faster

    def leave_bus(self, n_bytes: int) -> None:
        """The bytes are no longer queued."""
        with self._lock:
            self._queued -= n_bytes

    def sent(self, n_bytes: int, seconds: float) -> None:
        """Measured: the bus was free, and took so long."""
        self.bus = _renewed(self.bus, n_bytes, seconds, 5e9, 1e12)

    def written(self, n_bytes: int, seconds: float) -> None:
        """Measured: a thread of the host took so long."""
        self.host = _renewed(self.host, n_bytes, seconds, 1e9, 1e11)

    @property
    def queued(self) -> int:
        """The bytes that wait for the bus, or are on it."""
        return self._queued


def _renewed(rate: float, n_bytes: int, seconds: float, least: float, most: float) -> float:
    """The rate with a new measurement. Between limits, so that one odd measurement does not decide for ever."""
    if n_bytes < _MEASURED:
        return rate
    measured = min(most, max(least, n_bytes / max(seconds, 1e-9)))
    return (1 - _NEWEST) * rate + _NEWEST * measured


rates = Rates()


class _OnCard:
    """The keys of a table on a card, and the lanes that write them."""

    def __init__(self, key_start: NDArray[Any], keys: NDArray[Any]) -> None:
        self.card = here()
        self._key_start, self._keys = on_card(key_start), keys_on_card(keys)
        self._lanes: list[Lane] = []

    def write(self, hits: Rows, first: int, last: int, keys: NDArray[Any]) -> None:
        """Write the keys of the events from `first` to `last`."""
        with on(self.card), guarded("writing keys"):
            try:  # `pop` is atomic: two threads never get the same lane
                lane = self._lanes.pop()
            except IndexError:
                lane = Lane()
            with lane.stream:
                self._write(lane, _sent(lane, hits, first, last), last - first, keys)
            self._lanes.append(lane)

    def _write(self, lane: Lane, sent: Any, n_events: int, keys: NDArray[Any]) -> None:
        constants = {
            "WARPS": _WARPS, "EACH": _EACH,
            "KEY_BITS": 8 * self._keys.dtype.itemsize, "OUT_BITS": 8 * keys.dtype.itemsize,
        }  # fmt: skip
        write, start = kernel(__file__, "write_keys", constants), perf_counter()
        is_alone = rates.queued == keys.nbytes
        for first in range(0, len(keys), _STEP):
            n_keys = min(_STEP, len(keys) - first)
            there = lane.empty("keys", n_keys, keys.dtype)
            lane.launch(
                write, -(-n_keys // (_WARPS * _EACH)), 32 * _WARPS, sent, np.int32(n_events),
                self._key_start, self._keys, np.int64(first), np.int64(n_keys), there,
            )  # fmt: skip
            lane.fetch_into(keys[first : first + n_keys], there)
        if is_alone and rates.queued == keys.nbytes:  # nobody else came meanwhile
            rates.sent(keys.nbytes, perf_counter() - start)


def _sent(lane: Lane, hits: Rows, first: int, last: int) -> Any:
    """The offsets and rows of some events on the card. A card's own results lie in pinned memory: nothing is copied
    on the host."""
    begin, end = int(hits.start[first]), int(hits.start[last])
    arrays = hits.key_start[first : last + 1], hits.start[first : last + 1], hits.rows[begin:end]
    there = lane.empty("hits", sum(array.nbytes for array in arrays) // 4, np.int32)
    lane.send_end_to_end(there, arrays)
    return there


class KeyWriter:
    """Writes keys of one table. It does not keep the table on its card."""

    __slots__ = ("_on_card", "_process")

    def __init__(self, key_start: NDArray[Any], keys: NDArray[Any]) -> None:
        found: _OnCard = kept.of(keys, "writer", lambda: _OnCard(key_start, keys))
        self._on_card, self._process = weakref.ref(found), os.getpid()

    def room(self, n_keys: int, kind: Any) -> NDArray[Any] | None:
        """Memory into which a card writes fast, if there are enough keys and it is to be had."""
        if n_keys < _LEAST or self._now() is None:
            return None
        return pinned.lend(n_keys, kind)

    def write(self, hits: Rows, first: int, last: int, keys: NDArray[Any]) -> bool:
        """Write the keys of the events from `first` to `last`; False if the host should do that: it is faster, or the
        card has failed."""
        on_its_card = self._now()
        if on_its_card is None or len(keys) < _LEAST or not pinned.has(keys):
            return False
        if not rates.takes_bus(keys.nbytes):
            return False
        try:
            on_its_card.write(hits, first, last, keys)
        except DeviceError as error:
            _log.warning("the host writes keys instead: %s", error)
            return False
        finally:
            rates.leave_bus(keys.nbytes)
        return True

    def host_wrote(self, n_bytes: int, seconds: float) -> None:
        """Note how long a thread of the host took."""
        rates.written(n_bytes, seconds)

    def _now(self) -> _OnCard | None:
        """The table on its card; None if it is gone, or this process was forked."""
        return self._on_card() if self._process == os.getpid() else None
