"""Shared by the algorithms over signatures on a card: turn pairs (event, slot) into keys.

A pair is one word: the event in the upper half, the slot in the lower. Pairs come sorted, except
those of a small batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.shared.small_batch_gpu import Few
from matchyard.engines.tags.algorithms.shared.sorted_pairs_gpu import distinct
from matchyard.engines.tags.encoder.layout import Batch
from matchyard.forwarding import Way
from matchyard.gpu.compilation import kernel
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import keys_on_card, on_card
from matchyard.kernels import key_table

VARIANTS = ({"KEY_BITS": 32}, {"KEY_BITS": 64})
SHARED_BYTES = 48 << 10  # shared memory of a block, without a special attribute
_THREADS = 256
_FEW_BLOCKS = 264  # two per processor
_FIELDS = ("set_start", "tag_start", "tags", "key_start")  # as in the .cu file, before the keys


class Sets:
    """The sets of a table on the card, with their tags and keys."""

    def __init__(self, lane: Lane, table: Any, exact: bool) -> None:
        self._lane = lane
        self._has_removals = bool(len(table.removed_keys) or len(table.removed_at))
        self._copies = [on_card(getattr(table, name)) for name in _FIELDS]
        self._copies.append(keys_on_card(table.keys))
        # With removals, kernels return set numbers, which fit into 32 bits.
        self.key_kind = np.dtype(np.int32) if self._has_removals else self._copies[-1].dtype
        addresses = np.array([copy.data.ptr for copy in self._copies], np.uint64)
        flags = np.array([exact, self._has_removals], np.int32).view(np.uint64)
        self._struct = lane.send("sets", np.concatenate([addresses, flags]))

    def _kernel(self, name: str) -> Any:
        return kernel(__file__, name, {"KEY_BITS": 8 * self.key_kind.itemsize})

    def _given(self, batch: Batch, pairs: Any) -> tuple[Any, ...]:
        lane = self._lane
        return (
            self._struct, np.int64(len(pairs)), pairs,
            lane.send("tag_start", batch.tag_start), lane.send("tags", batch.tags),
        )  # fmt: skip

    def keys(self, table: Any, batch: Batch, pairs: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The keys of each event, after the exact check and without removed keys."""
        lane, n_events, n_pairs = self._lane, batch.n_rows, len(pairs)
        per_event, offsets = (
            lane.empty(name, n_events + 1, np.int64) for name in ("per", "offsets")
        )
        per_event.fill(0)
        given, n_blocks = self._given(batch, pairs), -(-n_pairs // _THREADS)
        counts, ends = (lane.empty(name, n_pairs, np.int64) for name in ("counts", "ends"))
        lane.launch(self._kernel("count_keys"), n_blocks, _THREADS, *given, counts, per_event[1:])
        per_event.cumsum(out=offsets)
        event_start = lane.fetch(offsets)
        keys = lane.empty("keys", int(event_start[-1]), self.key_kind)
        if len(keys):
            counts.cumsum(out=ends)
            lane.launch(self._kernel("write_keys"), n_blocks, _THREADS, *given, ends, keys)
        if self._has_removals:
            return key_table.gather(table, event_start, lane.fetch(keys))
        return event_start, lane.fetch(keys)

    def find(self, events: Few, pairs: Any, out: int, room: int) -> None:
        """Start to find the matching sets of a small batch; the first counter counts its pairs.

        The kernel writes words of an event and a set to the host's memory `out`, and counts them
        with the third counter.
        """
        self._lane.launch(
            self._kernel("find_sets"), _FEW_BLOCKS, _THREADS, self._struct, events.counters,
            np.uint64(len(pairs)), pairs, events.tag_start, events.tags, out,
            events.counters + 16, np.uint64(room),
        )  # fmt: skip

    def next_interfaces(
        self, batch: Batch, pairs: Any, way: Way, room: dict[str, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct interfaces to send each event to; the table must have no removed keys."""
        lane, n_blocks = self._lane, -(-len(pairs) // _THREADS)
        given = self._given(batch, pairs)
        on_the_card = lane.send("trees", way.trees), lane.send("incoming", way.incoming)

        def run(*out: Any) -> None:
            function = self._kernel("next_interfaces")
            lane.launch(function, n_blocks, _THREADS, *given, *on_the_card, *out)

        return distinct(lane, room, "interfaces", batch.n_rows, run)
