"""Join several tables of tagmatch: their partitions keep their content and get a new order.

A table orders partitions, with their blocks, slots, sets, tags and keys, by the leftmost bit of
their mask. To join tables, each is cut into one piece per bit, and the pieces are laid end to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matchyard.kernels.csr import check_offsets

_STARTS = ("block_start", "slot_start", "set_start", "tag_start", "key_start")
_VALUES = ("masks", "prefixes", "words", "tags", "keys")


def join(tables: Sequence[Any], padding: int) -> Any:
    """Join tables that have no set in common."""
    bits = range(len(tables[0].mask_start) - 1)  # the last one is for masks without bits
    pieces = [_cut(table, bit) for bit in bits for table in tables]
    joined = {
        name: np.concatenate([piece[name] for piece in pieces]) for name in (*_STARTS, *_VALUES)
    }
    for name in ("words", "masks"):
        joined[name] = np.pad(joined[name], ((0, padding), (0, 0))).T.copy()
    for name in _STARTS:
        joined[name] = _offsets(joined[name], getattr(tables[0], name).dtype)
    joined["mask_start"] = np.sum([table.mask_start for table in tables], axis=0)
    none = np.empty(0, np.int64)
    return type(tables[0])(**joined, removed_keys=none, removed_at=none)


def _offsets(lengths: Any, kind: Any) -> Any:
    """The starts of rows with the given lengths; refuses starts that do not fit into `kind`."""
    start = np.append(0, np.cumsum(lengths, dtype=np.int64))
    if kind == np.int32:
        check_offsets(int(start[-1]))
    return start.astype(kind)


def _cut(table: Any, bit: int) -> dict[str, Any]:
    """The arrays of the partitions with one leftmost bit, with lengths instead of offsets."""
    partitions = slice(*table.mask_start[bit : bit + 2].tolist())
    blocks = _below(table.block_start, partitions)
    slots = _below(table.slot_start, blocks)
    sets = _below(table.set_start, slots)
    return {
        "block_start": _lengths(table.block_start, partitions),
        "slot_start": _lengths(table.slot_start, blocks),
        "set_start": _lengths(table.set_start, slots),
        "tag_start": _lengths(table.tag_start, sets),
        "key_start": _lengths(table.key_start, sets),
        "masks": table.masks[:, partitions].T,
        "prefixes": table.prefixes[blocks],
        "words": table.words[:, slots].T,
        "tags": table.tags[_below(table.tag_start, sets)],
        "keys": table.keys[_below(table.key_start, sets)],
    }


def _below(start: Any, rows: slice) -> slice:
    return slice(int(start[rows.start]), int(start[rows.stop]))


def _lengths(start: Any, rows: slice) -> Any:
    return np.diff(start[rows.start : rows.stop + 1])
