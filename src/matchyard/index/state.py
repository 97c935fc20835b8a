"""The state of an index: staged changes become the next snapshot, while other threads match.

A consolidation joins everything into one segment. A live index shows changes at once: few additions as recent
rows, many as a side segment, removals as tombstones. `builds` joins these in the background.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from time import sleep
from typing import Any

import numpy as np
import pyarrow as pa

from matchyard.engine import Configured
from matchyard.errors import UsageError
from matchyard.gpu.devices import is_gpu
from matchyard.index.builds import Builds
from matchyard.index.keys import Keys
from matchyard.index.readers import Readers
from matchyard.index.recent import MOST, RecentLog
from matchyard.index.removals import Removals
from matchyard.index.segment import Rows, Segment
from matchyard.index.snapshot import Snapshot
from matchyard.index.staged import Changes
from matchyard.threads.forks import start_fresh_in_child
from matchyard.threads.interrupts import shielded

_MAX_SIDES = 8  # side segments of a live index before they are folded into one
_A_MOMENT = 5e-5  # seconds
_LEAST_NAMES = 4096  # string keys without a subscription before they are forgotten
_NO_KEYS = np.empty(0, np.int64)


class State:
    """The state of an index: the staged changes, and the snapshot that matching sees."""

    def __init__(self, settings: Configured, live: bool, shard_size: int) -> None:
        self.live = live
        self.settings, self.shard_size = settings, shard_size
        self.keys = Keys()
        self.changes = Changes(settings)
        self.snapshot = Snapshot((), None)
        self.readers = Readers(settings)
        self.log, self._is_log_shown = RecentLog(settings), True  # see `shown_log`
        self._kind: str | None = None  # of the subscriptions; the first one decides
        self.builds = Builds(self)
        self._start_fresh()
        start_fresh_in_child(self)

    def _start_fresh(self) -> None:
        """Make new locks and forget threads: a forked child must not inherit them in use."""
        self.lock = self._fork_lock = threading.RLock()  # staged changes and the switch
        self._shown_by = 0  # the thread that shows changes
        self.builds.start_fresh()

    # ---------------------------------------------------------------- staging

    def add(self, value: Any, key: Any) -> None:
        """Stage one parsed subscription."""
        with self.lock:
            self._expect(self.settings.engine.encoder.VALUES)
            self.changes.add(value, self.keys.number(key))

    def add_column(self, column: Any, names: pa.Array) -> None:
        """Stage a column of subscriptions under as many keys."""
        with self.lock:
            if column.n_rows:
                self._expect(column.kind)
                self.changes.add_column(column, self.keys.numbers(names))

    def remove(self, value: Any, key: Any) -> None:
        """Stage the removal of a key's subscriptions, or of every copy of one of them."""
        with self.lock:
            number = self.keys.find(key)
            if number is None:
                return
            if value is None:
                self.changes.remove_key(number)
                return
            self._expect(self.settings.engine.encoder.VALUES)
            self.changes.remove_pair(value, number)

    def replace(self, value: Any, key: Any) -> None:
        """Stage the removal of a key's subscriptions and one new subscription, as one change."""
        with self.lock:
            self._expect(self.settings.engine.encoder.VALUES)
            number = self.keys.number(key)
            self.changes.remove_key(number)
            self.changes.add(value, number)

    def _expect(self, kind: str) -> None:
        """Refuse a second kind of subscriptions now: `consolidate` would fail for all of them."""
        self._kind = self._kind or self.snapshot.kind()
        if self._kind not in (None, kind):
            raise UsageError(
                f"{kind} cannot be added to or removed from an index of {self._kind}; "
                "subscriptions of any kind can be removed by key"
            )
        self._kind = kind

    # ---------------------------------------------------------------- what matching sees

    def visible(self) -> Snapshot:
        """The snapshot that a call sees; a live index makes its staged changes visible first.

        Without changes there is no lock: threads that wait for one slow each other down by a factor of four.
        The order of the questions counts: a thread that shows changes says so before it takes them out, and
        says that it is done after they are shown.
        """
        is_behind = self.changes.is_touched or self._shown_by or self.builds.failure is not None
        return self._refresh() if self.live and is_behind else self.snapshot

    def find(self, key: Any, snapshot: Snapshot) -> int | None:
        """The number of a key in a snapshot, or None."""
        with self.lock:
            return (snapshot.keys or self.keys).find(key)

    def staged(self) -> int:
        """The number of staged additions and removals."""
        with self.lock:
            return self.changes.n_added + self.changes.n_removed

    def staged_sizes(self, recent: Iterable[tuple[Any, int]]) -> tuple[int, ...]:
        """The numbers of staged and recent subscriptions, their parts and their names."""
        not_staged = Changes(self.settings)
        for value, key in recent:
            not_staged.add(value, key)
        with self.lock:
            return tuple(map(sum, zip(self.changes.sizes, not_staged.sizes, strict=True)))

    def start(self, keys: Keys, segments: tuple[Segment, ...]) -> None:
        """Start with the segments of a saved index."""
        self.keys = keys
        self.show(segments, 0)

    def show(self, segments: tuple[Segment, ...], version: int) -> None:
        """Show segments and the recent additions, which are in the log."""
        names, recent = self.keys.names(), self.log.seen()
        self.snapshot = Snapshot(segments, names, version, recent, self.keys)

    def move(self, settings: Configured) -> None:
        """Match with other settings of the same algorithm from now on; free the memory on cards."""
        shielded(lambda: self._moved(settings))

    def _moved(self, settings: Configured) -> None:
        with self.builds.fold_lock, self.builds.merge_lock, self.lock:
            was_on_card, before = is_gpu(self.settings.device), self.snapshot.segments
            after = tuple(segment.moved(settings) for segment in before)
            self.settings = settings  # only now: a card may refuse the segments
            self.readers = Readers(settings)
            self.snapshot = self.snapshot._replace(segments=after)
        for segment in before if was_on_card else ():
            if is_gpu(settings.device):  # `close` would later free the new copies, too
                segment.workspaces.leave()
            else:
                segment.workspaces.close()

    def consolidate(self) -> tuple[Segment, Keys]:
        """Consolidate; return the built segment, without changes that came later, and its keys."""
        if self.live or self.builds.failure is not None:
            self._refresh()  # staged changes stay visible while the build runs
        return shielded(self._consolidated)

    def _consolidated(self) -> tuple[Segment, Keys]:
        return self.builds.fold_whole() if self.live else self.builds.fold(staged=True)

    # ---------------------------------------------------------------- taking changes

    def take(self) -> tuple[Removals, Rows]:
        """Take out all staged changes; if that fails, they stay staged."""
        removals, rows = self.changes.everything()
        self.changes = Changes(self.settings)
        return removals, rows

    def without(self, removals: Removals, segments: Sequence[Segment], rows: Rows) -> list[Segment]:
        """Apply removals to segments; if that fails, stage the removals and the rows again."""
        try:
            return [segment.remove(removals) for segment in segments]
        except BaseException:
            self.put_back([rows], removals)
            raise

    def put_back(self, lost: list[Rows], removals: Removals) -> None:
        """Stage taken changes again: the removals also if the rows were too large to keep."""
        for rows in lost or [Changes(self.settings).take()]:
            self.changes.put_back(rows, removals)

    def removed(self, segment: Segment, removals: Removals, version: int) -> Segment:
        """A segment of a live index without removed keys and pairs, for readers from `version` on."""
        segment = segment.bury(removals.keys, version)
        if not removals.pairs:
            return segment
        return segment.remove(Removals(_NO_KEYS, removals.pairs))

    def forget_names(self) -> None:
        """Forget string keys without a subscription if they are many. The caller has the locks of merges and of
        the state."""
        snapshot, log = self.snapshot, self.shown_log()
        n_used = log.n_rows + sum(segment.n_keys for segment in snapshot.segments)
        if self.changes or self.keys.n_names <= 2 * n_used + _LEAST_NAMES:
            return
        is_used = np.zeros(self.keys.n_names, np.bool_)
        for segment in snapshot.segments:
            for table in segment.tables:
                is_used[table.keys] = True
        is_used[[key for _, key in snapshot.recent_rows()]] = True
        self.keys, numbers = self.keys.only(np.flatnonzero(is_used))
        rows = ((value, int(numbers[key])) for value, key in snapshot.recent_rows())
        self.log = RecentLog(self.settings, rows)
        segments = tuple(segment.renumbered(numbers) for segment in snapshot.segments)
        self.show(segments, snapshot.version)

    # ---------------------------------------------------------------- live

    def _refresh(self) -> Snapshot:
        """Make staged changes of a live index visible."""
        me = threading.get_ident()
        while self._shown_by not in (0, me):
            # Threads that wait for a lock get it before they get the interpreter, one after the other, and
            # the next change would wait for all of them. Most of these find no more changes to show.
            sleep(_A_MOMENT)
        with self.lock:
            if self.builds.failure is not None:
                failure, self.builds.failure = self.builds.failure, None
                raise failure
            if not self.changes:  # a refused addition may have touched them
                self.changes = Changes(self.settings)
                return self.snapshot
            before, self._shown_by = self._shown_by, me
            try:
                rows = None
                if self.live and not self.settings.takes_bare_signatures:
                    rows = self.changes.few(MOST - self.log.n_rows)
                snapshot = None if rows is None else self._show_few(rows)
            finally:
                self._shown_by = before
        if snapshot is None:
            return shielded(self._show_many)
        self.builds.give_way()
        return snapshot

    def _show_few(self, rows: list[tuple[Any, int]]) -> Snapshot:
        """Show few changes. An interrupt may end this at any step: all that a reader sees changes at the
        end, and what was begun is begun again by the next call."""
        before, removals = self.snapshot, self.changes.removals()
        segments, version = before.segments, before.version
        if removals:
            version += 1
            segments = tuple(self.removed(segment, removals, version) for segment in segments)
            self.builds.note(removals)
        log = self._changed_log(removals, rows)
        after = Snapshot(segments, self.keys.names(), version, log.seen(), self.keys)
        none = Changes(self.settings)
        # CPython looks for interrupts at calls and jumps, so not between these lines.
        self.snapshot = after
        self.changes = none
        self._is_log_shown = True
        self.builds.keep_small()
        return after

    def shown_log(self) -> RecentLog:
        """The log, with the rows that the snapshot has. An interrupt may have left more rows in it: then it is
        made anew. The caller has the lock."""
        if not self._is_log_shown:
            self.log = RecentLog(self.settings, self.snapshot.recent_rows())
            self.snapshot = self.snapshot._replace(recent=self.log.seen())
            self._is_log_shown = True
        return self.log

    def _changed_log(self, removals: Removals, rows: list[tuple[Any, int]]) -> RecentLog:
        log = self.shown_log()
        self._is_log_shown = False
        log.change(removals, rows)
        return log

    def _show_many(self) -> Snapshot:
        with self.lock:
            before, self._shown_by = self._shown_by, threading.get_ident()
            try:
                return self._show_taken()
            finally:
                self._shown_by = before

    def _show_taken(self) -> Snapshot:
        if not self.changes:
            return self.snapshot
        version = self.snapshot.version + 1
        removals, rows = self.take()
        try:
            segments = [
                self.removed(segment, removals, version) for segment in self.snapshot.segments
            ]
            log = self._changed_log(removals, [])
        except BaseException:
            self.put_back([rows], removals)
            raise
        if len(rows.keys):
            segments = self._with_side(segments, removals, rows)
        self.builds.note(removals)
        self.log = log
        self.show(tuple(segments), version)
        self._is_log_shown = True
        self.builds.keep_small()
        return self.snapshot

    def _with_side(self, segments: list[Segment], removals: Removals, rows: Rows) -> list[Segment]:
        """The segments with one more. It takes along small neighbours, so that the number of segments grows
        logarithmically, but neither the base nor the segments of a running fold or merge."""
        joined: list[Segment] = []
        n_keys = len(rows.keys)
        while (
            len(segments) > 1
            and not self.builds.is_joined(segments[-1])
            and (segments[-1].n_keys <= 2 * n_keys or len(segments) > _MAX_SIDES)
        ):
            joined.insert(0, segments.pop())
            n_keys += joined[0].n_keys

        def restore(lost: list[Rows]) -> None:  # the caller has the lock
            self.put_back(lost, removals)

        side = self.builds.compile(joined, [rows], restore)
        return [*segments, side.bury(_NO_KEYS, self.snapshot.version + 1)]
