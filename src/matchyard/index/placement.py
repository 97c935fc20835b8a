"""Dealing: which card has which table of a segment.

If all tables fit on each card, each card has all of them, and the cards take batches in turn.
Otherwise the tables are dealt out, and every batch visits all cards. If the tables do not fit on
all cards together, they are matched in turns: each is copied to a card, matched with a large batch,
and forgotten. A table that is too large for a card is cut first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.errors import DeviceError
from matchyard.gpu.devices import Card, is_gpu, room
from matchyard.gpu.devices import cards as cards_of
from matchyard.kernels import key_table
from matchyard.kernels.strings import freeze, n_bytes

_MOST_PARTS = 64  # of a table; a card that needs more parts is too small


class Dealing(NamedTuple):
    """The card of each table, in rounds that threads take in turn. With `in_turns`, a round is one
    card. None is the CPU."""

    rounds: Sequence[Sequence[Card | None]]
    in_turns: bool = False


def deal(settings: Configured, tables: Sequence[Any]) -> Dealing:
    """Choose the card of each table."""
    if not is_gpu(settings.device) or not tables:
        return Dealing([[None] * len(tables)])
    cards = cards_of(settings.device)
    sizes, most = [n_bytes(table) for table in tables], [room(card) for card in cards]
    if sum(sizes) <= min(most):
        return Dealing([[card] * len(tables) for card in cards])
    dealt, left = [], list(most)
    for size in sizes:  # each to the card with the most room left
        best = max(range(len(cards)), key=left.__getitem__)
        left[best] -= size
        dealt.append(cards[best])
    if min(left) >= 0:
        return Dealing([dealt])
    return Dealing([[card] for card in cards], in_turns=True)


def ask_cards(settings: Configured) -> None:
    """Raise a DeviceError if a card of the index does not respond."""
    if is_gpu(settings.device):
        for card in cards_of(settings.device):
            room(card)


def cut(settings: Configured, vocabulary: Any, tables: Sequence[Any]) -> list[Any]:
    """Replace each table that is too large for a card by several smaller ones."""
    if not is_gpu(settings.device) or not tables:
        return list(tables)
    most = min(room(card) for card in cards_of(settings.device))
    smaller = []
    for table in tables:
        n_parts = -(-n_bytes(table) // max(1, most))
        if n_parts > _MOST_PARTS:
            raise DeviceError(
                f"the GPU has too little memory: room for {most:,} bytes, and a table has "
                f"{n_bytes(table):,}"
            )
        positions = key_table.living(table) if n_parts > 1 else None
        if positions is None or len(positions) < n_parts:
            smaller.append(table)
            continue
        for some in np.array_split(positions, n_parts):
            smaller.append(_part(settings, vocabulary, table, some))
    return smaller


def _part(settings: Configured, vocabulary: Any, table: Any, positions: NDArray[np.int64]) -> Any:
    """Compile the subscriptions whose keys are at some positions of a table."""
    rows = key_table.rows_at(table.key_start, positions)
    batch = settings.algorithm.subscriptions(table, rows)
    keys = table.keys[positions]
    return freeze(settings.algorithm.compile(batch, keys, vocabulary, settings.options))
