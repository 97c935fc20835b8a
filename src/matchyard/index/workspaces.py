"""Workspaces: the arrays that an algorithm changes while it matches, lent to one thread at a time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from matchyard.engine import Configured
from matchyard.gpu.devices import Card, forget_host_memory, on
from matchyard.gpu.pinned import pinned
from matchyard.gpu.resident import forget
from matchyard.index.placement import Dealing, deal
from matchyard.kernels import key_table
from matchyard.matches import Part
from matchyard.storage import Unchecked
from matchyard.threads.forks import start_fresh_in_child

IN_TURNS = 16  # factor for the events of a batch if every batch copies all tables


class Workspaces:
    """The workspaces of the tables of one segment; threads borrow them."""

    def __init__(
        self,
        settings: Configured,
        tables: Sequence[Any],
        before: Workspaces | None = None,
        unchecked: Sequence[Unchecked] = (),
    ) -> None:
        self._settings, self._tables, self._unchecked = settings, tables, unchecked
        # Kernels of the CPU take keys in words; a card has a copy of the keys.
        on_cpu = settings.device == "cpu"
        self._searched = [key_table.in_words(table) for table in tables] if on_cpu else tables
        self._dealing: Dealing = before._dealing if before else deal(settings, tables)
        self._is_closed: threading.Event = before._is_closed if before else threading.Event()
        self.in_turns = self._dealing.in_turns
        self._cards = itertools.cycle(self._dealing.rounds)
        self._start_fresh()
        start_fresh_in_child(self)
        self._free: list[list[list[tuple[Card | None, Any]]]] = [[] for _ in self._dealing.rounds]
        self._n_made = [0] * len(self._free)

    def _start_fresh(self) -> None:
        """Make a new lock: a forked child must not inherit one that another thread holds."""
        self._turn = threading.Lock()

    def of(self, tables: Sequence[Any]) -> Workspaces:
        """The workspaces of the same tables with other removals, with the same plan of cards."""
        return Workspaces(self._settings, tables, self, self._unchecked)

    def leave(self) -> None:
        """Free the memory on the cards; threads that are matching keep theirs until they end."""
        for free in self._free:
            free.clear()
        forget(self._tables)
        pinned.forget()
        forget_host_memory()

    def close(self) -> None:
        """Free the memory on the cards now, and again when a thread that is matching ends. This
        includes the workspaces of the same tables with other removals."""
        self._is_closed.set()
        self.leave()

    def match(self, match: Callable[..., Part], batch: Any) -> list[Part]:
        """Match a batch with each table, in this thread."""
        for one in self._unchecked:
            one.check_for(batch)
        if self.in_turns:
            return self._match_in_turns(match, batch)
        borrowed = self.borrow()
        try:
            return [
                self._match(match, table, batch, *one)
                for table, one in zip(self._searched, borrowed, strict=True)
            ]
        finally:
            self.give_back(borrowed)

    def _match(
        self, match: Callable[..., Part], table: Any, batch: Any, card: Card | None, space: Any
    ) -> Part:
        with nullcontext() if card is None else on(card):
            return match(table, batch, space, self._settings.options)

    def borrow(self) -> list[tuple[Card | None, Any]]:
        """Borrow a card and a workspace for each table, for one thread until `give_back`."""
        try:  # `pop` is atomic: two threads never get the same workspaces
            return self._free[self._least_busy()].pop()
        except IndexError:
            with self._turn:
                number = self._least_busy()
                self._n_made[number] += 1
        try:
            return [
                (card, self._make(table, card))
                for table, card in zip(self._searched, self._dealing.rounds[number], strict=True)
            ]
        except BaseException:
            with self._turn:
                self._n_made[number] -= 1
            raise

    def _least_busy(self) -> int:
        """The round of the dealing whose cards the fewest threads are using."""
        if len(self._free) == 1:
            return 0
        numbers = range(len(self._free))
        return min(numbers, key=lambda number: self._n_made[number] - len(self._free[number]))

    def give_back(self, borrowed: list[tuple[Card | None, Any]]) -> None:
        """Return borrowed workspaces, for other threads."""
        if self._is_closed.is_set():
            borrowed.clear()  # `leave` can only free memory without references
        else:
            these = [card for card, _ in borrowed]
            self._free[self._dealing.rounds.index(these)].append(borrowed)
        if self._is_closed.is_set():
            self.leave()

    def _make(self, table: Any, card: Card | None) -> Any:
        with nullcontext() if card is None else on(card):
            return self._settings.algorithm.workspace(table, self._settings.options)

    def _match_in_turns(self, match: Callable[..., Part], batch: Any) -> list[Part]:
        parts = []
        for table in self._tables:
            with self._turn:
                (card,) = next(self._cards)
                try:
                    space = self._make(table, card)
                    parts.append(self._match(match, table, batch, card, space))
                finally:
                    space = None  # `forget` can only free memory without references
                    forget([table])
        return parts
