"""Workspaces: what threads match the tables of a segment with, and which card has which table.

Each card has all tables where they fit (the cards take batches in turn). Where they do not, tables
are dealt out, and every batch visits all cards. Where not even all cards together have room, tables
take turns: each is copied to a card, matched with a large batch, and forgotten. A table that is too
large for a card is cut first.
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
from matchyard.kernels import key_table
from matchyard.kernels.strings import freeze, n_bytes
from matchyard.matches import Part
from matchyard.threads.forks import start_fresh_in_child

_MOST_PARTS = 64  # of a table: a card that is that full is of no use
IN_TURNS = 16  # times as many events in a batch where every batch copies all tables


class Plan(NamedTuple):
    """The cards of the tables, for one thread after the other; where tables take turns there is one
    card at a time. None is the CPU."""

    rounds: Sequence[Sequence[Place | None]]
    in_turns: bool = False


class Workspaces:
    """Those of the tables of one segment; threads borrow them."""

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
        """The lock, which a forked child must not inherit half way."""
        self._turn = threading.Lock()

    def of(self, tables: Sequence[Any]) -> Workspaces:
        """Those of the same tables with other removals, on the same cards, which are not asked."""
        return Workspaces(self._settings, tables, before=self)

    def leave(self) -> None:
        """Leave nothing on the cards; who matches meanwhile still does."""
        for free in self._free:
            free.clear()
        forget(self._tables)
        forget_host_memory()

    def close(self) -> None:
        """Leave nothing on the cards: now, and again when one who matches meanwhile is done, also
        with other removals."""
        self._is_closed.set()
        self.leave()

    def match(self, match: Callable[..., Part], batch: Any) -> list[Part]:
        """What each table finds in a batch, by one thread."""
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
        """A workspace for each table, and its card, for one thread until it gives them back."""
        try:  # which is atomic: two threads never get the same one
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
        """Let others have them."""
        if self._is_closed.is_set():
            borrowed.clear()  # so that nothing holds what is forgotten
        else:
            these = [place for place, _ in borrowed]
            self._free[self._plan.rounds.index(these)].append(borrowed)
        if self._is_closed.is_set():
            self.leave()

    def _make(self, table: Any, place: Place | None) -> Any:
        with nullcontext() if place is None else on(place):
            return self._settings.algorithm.workspace(table, self._settings.options)

    def _match_in_turns(self, match: Callable[..., Part], batch: Any) -> list[Part]:
        found = []
        for table in self._tables:
            with self._turn:
                (place,) = next(self._cards)
                try:
                    space = self._make(table, place)
                    found.append(self._match(match, table, batch, place, space))
                finally:
                    space = None  # so that nothing holds what is forgotten
                    forget([table])
        return found


def _plan(settings: Configured, tables: Sequence[Any]) -> Plan:
    if not is_gpu(settings.device) or not tables:
        return Plan([[None] * len(tables)])
    cards = places(settings.device)
    sizes, most = [n_bytes(table) for table in tables], [room(card) for card in cards]
    if sum(sizes) <= min(most):
        return Plan([[card] * len(tables) for card in cards])
    dealt, left = [], list(most)
    for size in sizes:  # each to the card that has most room
        best = max(range(len(cards)), key=left.__getitem__)
        left[best] -= size
        dealt.append(cards[best])
    if min(left) >= 0:
        return Plan([dealt])
    return Plan([[card] for card in cards], in_turns=True)


def ask_cards(settings: Configured) -> None:
    """A DeviceError where a card that is to be used is gone."""
    if is_gpu(settings.device):
        for card in places(settings.device):
            room(card)


def cut(settings: Configured, vocabulary: Any, tables: Sequence[Any]) -> list[Any]:
    """The tables, and in place of those that are too large for a card several of part of it each."""
    if not is_gpu(settings.device) or not tables:
        return list(tables)
    most = min(room(card) for card in places(settings.device))
    found = []
    for table in tables:
        n_parts = -(-n_bytes(table) // max(1, most))
        if n_parts > _MOST_PARTS:
            raise DeviceError(
                f"the GPU has too little memory: room for {most:,} bytes, and a table has "
                f"{n_bytes(table):,}"
            )
        positions = key_table.living(table) if n_parts > 1 else None
        if positions is None or len(positions) < n_parts:
            found.append(table)
            continue
        for some in np.array_split(positions, n_parts):
            found.append(_part(settings, vocabulary, table, some))
    return found


def _part(settings: Configured, vocabulary: Any, table: Any, positions: NDArray[np.int64]) -> Any:
    """A table of the subscriptions whose keys stand at some positions of another."""
    rows = key_table.rows_at(table.key_start, positions)
    batch = settings.algorithm.subscriptions(table, rows)
    keys = table.keys[positions]
    return freeze(settings.algorithm.compile(batch, keys, vocabulary, settings.options))
