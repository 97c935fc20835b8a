"""Turn staged changes into the next snapshot, while other threads match.

A consolidation joins everything into one segment. A live index shows changes at once, in side
segments and tombstones, and is consolidated in the background when these grow.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import pyarrow as pa

from matchyard.engine import Configured
from matchyard.errors import UsageError
from matchyard.gpu.devices import is_gpu
from matchyard.index.keys import Keys
from matchyard.index.readers import Readers
from matchyard.index.segment import Removals, Rows, Segment
from matchyard.index.snapshot import Snapshot
from matchyard.index.staged import Changes
from matchyard.threads.forks import start_fresh_in_child
from matchyard.threads.interrupts import shielded

_MAX_SIDES = 8  # side segments of a live index before they are folded into one
_SIDE_SHARE = 16  # a live index consolidates when its changes pass 1/16 of the whole…
_SIDE_LEAST = 4096  # …and this many


_FORKED = (
    "this process was forked while another thread consolidated, so only the parent has the changes "
    "that were staged then; fork before or after a consolidation, or add the changes again here"
)

_log = logging.getLogger("matchyard")


class State:
    """The state of an index: the staged changes, and the snapshot that matching sees."""

    def __init__(self, settings: Configured, live: bool, shard_size: int) -> None:
        self.live = live
        self.settings, self._shard_size = settings, shard_size
        self.keys = Keys()
        self.changes = Changes(settings)
        self.snapshot = Snapshot((), None)
        self.readers = Readers(settings)
        self._kind: str | None = None  # of the subscriptions; the first one decides
        self._is_in_hand = False  # True while a consolidation holds the staged changes
        self._start_fresh()
        start_fresh_in_child(self)

    def _start_fresh(self) -> None:
        """Make new locks and forget threads: a forked child must not inherit them in use."""
        self.lock = self._fork_lock = threading.RLock()  # staged changes and the switch
        self.build_lock = threading.Lock()  # one consolidation at a time
        self._since_build: list[Removals] | None = None  # removals during a consolidation
        self._n_building = 0  # segments that the consolidation joins
        self.background: threading.Thread | None = None
        # Raised by the next call. A forked child lacks the thread that would finish the build.
        self._failure: BaseException | None = UsageError(_FORKED) if self._is_in_hand else None
        self._is_in_hand = False

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
        """The snapshot that a call sees; a live index makes its staged changes visible first."""
        return self._refresh() if self.live else self.snapshot

    def find(self, key: Any) -> int | None:
        """The number of a key, or None."""
        with self.lock:
            return self.keys.find(key)

    def staged(self) -> int:
        """The number of staged additions and removals."""
        with self.lock:
            return self.changes.n_added + self.changes.n_removed

    def staged_sizes(self) -> tuple[int, int, int]:
        """The numbers of staged subscriptions, their parts and their names."""
        with self.lock:
            return self.changes.sizes

    def show(self, keys: Keys, segments: tuple[Segment, ...]) -> None:
        """Start with the segments of a saved index."""
        self.keys, self.snapshot = keys, Snapshot(segments, keys.names())

    def move(self, settings: Configured) -> None:
        """Match with other settings of the same algorithm from now on; free the memory on cards."""
        shielded(lambda: self._moved(settings))

    def _moved(self, settings: Configured) -> None:
        with self.build_lock, self.lock:
            was_on_card, before = is_gpu(self.settings.device), self.snapshot.segments
            after = [Segment(settings, segment.vocabulary, segment.tables) for segment in before]
            self.settings = settings  # only now: a card may refuse the segments
            self.readers = Readers(settings)
            self.snapshot = self.snapshot._replace(segments=tuple(after))
        for segment in before if was_on_card else ():
            if is_gpu(settings.device):  # `close` would later free the new copies, too
                segment.workspaces.leave()
            else:
                segment.workspaces.close()

    def consolidate(self) -> Segment:
        """Consolidate; return the built segment, without changes that came later."""
        if self.live or self._failure is not None:
            self._refresh()  # staged changes stay visible while the build runs
        return shielded(lambda: self._fold(staged=not self.live))

    def _fold(self, staged: bool) -> Segment:
        """Join all segments into one, with the staged changes if `staged`."""
        with self.build_lock:
            with self.lock:
                removals, rows = self._take() if staged else Changes(self.settings).everything()
                before = self.snapshot.segments
                segments = self._without(removals, before, rows)
                if not len(rows.keys) and len(before) == 1 and not segments[0].n_tombstones:
                    return before[0]
                self._since_build, self._n_building = [], len(before)
                self._is_in_hand = staged

            def restore(lost: list[Rows]) -> None:
                with self.lock:
                    self._since_build, self._is_in_hand = None, False
                    self._put_back(lost, removals)

            handed_over = [rows]
            del rows
            built = self._built(segments, handed_over, restore)
            with self.lock:  # no removal may come between the last missed one and the switch
                missed, self._since_build = self._since_build or [], None
                self._is_in_hand = False
                current = built
                for later in missed:
                    current = current.remove(later)
                newer = self.snapshot.segments[len(before) :]
                self.snapshot = Snapshot((current, *newer), self.keys.names())
            return built

    def _take(self) -> tuple[Removals, Rows]:
        """Take out all staged changes; if that fails, they stay staged."""
        removals, rows = self.changes.everything()
        self.changes = Changes(self.settings)
        return removals, rows

    def _without(
        self, removals: Removals, segments: Sequence[Segment], rows: Rows
    ) -> list[Segment]:
        """Apply removals to segments; if that fails, stage the removals and the rows again."""
        try:
            return [segment.remove(removals) for segment in segments]
        except BaseException:
            self._put_back([rows], removals)
            raise

    def _put_back(self, lost: list[Rows], removals: Removals) -> None:
        """Stage taken changes again: the removals also if the rows were too large to keep."""
        for rows in lost or [Changes(self.settings).take()]:
            self.changes.put_back(rows, removals)

    def _built(
        self, segments: Sequence[Segment], staged: list[Rows], restore: Callable[[list[Rows]], None]
    ) -> Segment:
        """Compile segments and staged rows into one segment; on failure `restore` gets the rows.

        Takes the rows out of the list, so that they can be freed early.
        """
        start = perf_counter()
        parts: list[Rows] = []
        rows = staged.pop()
        lent = [rows] if any(segment.n_keys for segment in segments) else []  # joining copies
        try:
            parts += [segment.living() for segment in segments if segment.n_keys]
            if len(rows.keys) or not parts:
                parts.append(rows)
            del rows
            built = Segment.compile(self.settings, parts, self._shard_size)
        except BaseException as error:
            kept = lent or parts
            restore(kept)
            outcome = "nothing has changed" if kept else "every addition is lost, too large to keep"
            _log.warning("consolidation failed, %s: %s", outcome, error)
            raise
        seconds = perf_counter() - start
        _log.info("consolidated %d subscriptions in %.2f s", built.n_keys, seconds)
        return built

    def _refresh(self) -> Snapshot:
        """Make staged changes of a live index visible, as a side segment and tombstones."""
        with self.lock:
            if self._failure is None and not self.changes:
                return self.snapshot
        return shielded(self._show_changes)

    def _show_changes(self) -> Snapshot:
        with self.lock:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            return self._add_side() if self.changes else self.snapshot

    def _add_side(self) -> Snapshot:
        removals, rows = self._take()
        segments = self._without(removals, self.snapshot.segments, rows)
        if len(rows.keys):
            # Fold small neighbours, so that the number of segments grows logarithmically. Leave the
            # base and the segments of a running consolidation alone.
            building = self._since_build is not None
            folded: list[Segment] = []
            n_keys = len(rows.keys)
            while len(segments) > (self._n_building if building else 1) and (
                segments[-1].n_keys <= 2 * n_keys or len(segments) > _MAX_SIDES
            ):
                folded.insert(0, segments.pop())
                n_keys += folded[0].n_keys

            def restore(lost: list[Rows]) -> None:  # the caller has the lock
                self._put_back(lost, removals)

            segments.append(self._built(folded, [rows], restore))
        if removals and self._since_build is not None:
            self._since_build.append(removals)
        self.snapshot = Snapshot(tuple(segments), self.keys.names())
        n_side = sum(segment.n_keys for segment in segments[1:])
        n_gone = sum(segment.n_tombstones for segment in segments[:1])
        n_base = segments[0].n_keys if segments else 0
        if n_side + n_gone > max(_SIDE_LEAST, n_base // _SIDE_SHARE):
            self._fold_in_background()
        return self.snapshot

    def _fold_in_background(self) -> None:
        if self.background is not None and self.background.is_alive():
            return

        def work() -> None:
            try:
                # Leave the staged changes: the next match must see them, before this is done.
                self._fold(staged=False)
            except BaseException as error:
                self._failure = error  # raised by the next call

        self.background = threading.Thread(target=work, name="matchyard-consolidate", daemon=True)
        self.background.start()
