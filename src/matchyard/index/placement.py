"""Choose the cards of the tables of a segment, and lend workspaces to threads.

If all tables fit on each card, each card has all of them, and the cards take batches in turn.
Otherwise the tables are dealt out, and every batch visits all cards. If the tables do not fit on
all cards together, they are matched in turns: each is copied to a card, matched with a large batch,
and forgotten. A table that is too large for a card is cut first.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.errors import DeviceError
from matchyard.gpu.devices import Place, forget_host_memory, is_gpu, on, places, room
from matchyard.gpu.resident import forget
from matchyard.kernels import csr
from matchyard.kernels.strings import freeze, n_bytes
from matchyard.matches import Part
from matchyard.threads.forks import start_fresh_in_child

_MOST_PARTS = 64  # of a table: a card with less room is of no use
IN_TURNS = 16  # factor for the events of a batch if every batch copies all tables


class Plan(NamedTuple):
    """The card of each table, in rounds that threads take in turn. With `in_turns`, a round is one
    card. None is the CPU."""

    rounds: Sequence[Sequence[Place | None]]
    in_turns: bool = False


class Workspaces:
    """The workspaces of the tables of one segment; threads borrow them."""

    def __init__(
        self, settings: Configured, tables: Sequence[Any], before: Workspaces | None = None
    ) -> None:
        self._settings, self._tables = settings, tables
        self._plan: Plan = before._plan if before else _plan(settings, tables)
        self._is_closed: threading.Event = before._is_closed if before else threading.Event()
        self.in_turns = self._plan.in_turns
        self._cards = itertools.cycle(self._plan.rounds)
        self._start_fresh()
        start_fresh_in_child(self)
        self._free: list[list[list[tuple[Place | None, Any]]]] = [[] for _ in self._plan.rounds]
        self._n_made = [0] * len(self._free)

    def _start_fresh(self) -> None:
        """Make a new lock: a forked child must not inherit one that another thread holds."""
        self._turn = threading.Lock()

    def of(self, tables: Sequence[Any]) -> Workspaces:
        """The workspaces of the same tables with other removals, with the same plan of cards."""
        return Workspaces(self._settings, tables, before=self)

    def leave(self) -> None:
        """Free the memory on the cards; threads that are matching keep theirs until they end."""
        for free in self._free:
            free.clear()
        forget(self._tables)
        forget_host_memory()

    def close(self) -> None:
        """Free the memory on the cards now, and again when a thread that is matching ends. This
        includes the workspaces of the same tables with other removals."""
        self._is_closed.set()
        self.leave()

    def match(self, match: Callable[..., Part], batch: Any) -> list[Part]:
        """Match a batch with each table, in this thread."""
        if self.in_turns:
            return self._match_in_turns(match, batch)
        borrowed = self.borrow()
        try:
            return [
                self._match(match, table, batch, *one)
                for table, one in zip(self._tables, borrowed, strict=True)
            ]
        finally:
            self.give_back(borrowed)

    def _match(
        self, match: Callable[..., Part], table: Any, batch: Any, place: Place | None, space: Any
    ) -> Part:
        with nullcontext() if place is None else on(place):
            return match(table, batch, space, self._settings.options)

    def borrow(self) -> list[tuple[Place | None, Any]]:
        """Borrow a card and a workspace for each table, for one thread until `give_back`."""
        try:  # `pop` is atomic: two threads never get the same workspaces
            return self._free[self._least_busy()].pop()
        except IndexError:
            with self._turn:
                number = self._least_busy()
                self._n_made[number] += 1
        try:
            return [
                (place, self._make(table, place))
                for table, place in zip(self._tables, self._plan.rounds[number], strict=True)
            ]
        except BaseException:
            with self._turn:
                self._n_made[number] -= 1
            raise

    def _least_busy(self) -> int:
        """The round of the plan whose cards the fewest threads are using."""
        if len(self._free) == 1:
            return 0
        numbers = range(len(self._free))
        return min(numbers, key=lambda number: self._n_made[number] - len(self._free[number]))

    def give_back(self, borrowed: list[tuple[Place | None, Any]]) -> None:
        """Return borrowed workspaces, for other threads."""
        if self._is_closed.is_set():
            borrowed.clear()  # `leave` can only free memory without references
        else:
            these = [place for place, _ in borrowed]
            self._free[self._plan.rounds.index(these)].append(borrowed)
        if self._is_closed.is_set():
            self.leave()

    def _make(self, table: Any, place: Place | None) -> Any:
        with nullcontext() if place is None else on(place):
            return self._settings.algorithm.workspace(table, self._settings.options)

    def _match_in_turns(self, match: Callable[..., Part], batch: Any) -> list[Part]:
        parts = []
        for table in self._tables:
            with self._turn:
                (place,) = next(self._cards)
                try:
                    space = self._make(table, place)
                    parts.append(self._match(match, table, batch, place, space))
                finally:
                    space = None  # `forget` can only free memory without references
                    forget([table])
        return parts


def _plan(settings: Configured, tables: Sequence[Any]) -> Plan:
    if not is_gpu(settings.device) or not tables:
        return Plan([[None] * len(tables)])
    cards = places(settings.device)
    sizes, most = [n_bytes(table) for table in tables], [room(card) for card in cards]
    if sum(sizes) <= min(most):
        return Plan([[card] * len(tables) for card in cards])
    dealt, left = [], list(most)
    for size in sizes:  # each to the card with the most room left
        best = max(range(len(cards)), key=left.__getitem__)
        left[best] -= size
        dealt.append(cards[best])
    if min(left) >= 0:
        return Plan([dealt])
    return Plan([[card] for card in cards], in_turns=True)


def ask_cards(settings: Configured) -> None:
    """Raise a DeviceError if a card of the index does not respond."""
    if is_gpu(settings.device):
        for card in places(settings.device):
            room(card)


def cut(settings: Configured, vocabulary: Any, tables: Sequence[Any]) -> list[Any]:
    """Replace each table that is too large for a card by several smaller ones."""
    if not is_gpu(settings.device) or not tables:
        return list(tables)
    most = min(room(card) for card in places(settings.device))
    smaller = []
    for table in tables:
        n_parts = -(-n_bytes(table) // max(1, most))
        if n_parts > _MOST_PARTS:
            raise DeviceError(
                f"the GPU has too little memory: room for {most:,} bytes, and a table has "
                f"{n_bytes(table):,}"
            )
        positions = csr.living(table) if n_parts > 1 else None
        if positions is None or len(positions) < n_parts:
            smaller.append(table)
            continue
        for some in np.array_split(positions, n_parts):
            smaller.append(_part(settings, vocabulary, table, some))
    return smaller


def _part(settings: Configured, vocabulary: Any, table: Any, positions: NDArray[np.int64]) -> Any:
    """Compile the subscriptions whose keys are at some positions of a table."""
    rows = csr.rows_at(table.key_start, positions)
    batch = settings.algorithm.subscriptions(table, rows)
    keys = table.keys[positions]
    return freeze(settings.algorithm.compile(batch, keys, vocabulary, settings.options))
