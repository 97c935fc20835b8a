"""Join segments into one, while other threads match and change the index.

    fold    all segments of an index, with the staged changes if it is not live
    merge   the recent additions of a live index, with the small side segments before them

Both take what they join under the lock of the state, compile without it, and switch under it again. Removals
that came meanwhile are applied to the result before the switch.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import numpy as np

from matchyard.errors import UsageError
from matchyard.index.keys import Keys
from matchyard.index.recent import MOST, RecentLog
from matchyard.index.removals import Removals
from matchyard.index.segment import Rows, Segment
from matchyard.index.staged import Changes

if TYPE_CHECKING:
    from matchyard.index.state import State

_MERGE_AT = MOST // 2  # recent additions that are merged
_GIVE_WAY_AT = MOST * 3 // 4
_TIMES = 4  # a merge takes along side segments of up to this many times its size
_SIDE_SHARE = 16  # a live index is folded when its changes pass 1/16 of the whole…
_SIDE_LEAST = 4096  # …and this many
_FORKED = (
    "this process was forked while another thread consolidated, so only the parent has the changes "
    "that were staged then; fork before or after a consolidation, or add the changes again here"
)
_A_MOMENT = 5e-5  # seconds
_log = logging.getLogger("matchyard")


class _Exit:
    """The end of the process. Python would end the threads within compiled code, which aborts the process."""

    has_come = False

    @classmethod
    def check(cls) -> None:
        """Stop a build in the background if the process ends."""
        if cls.has_come and threading.current_thread() in _running:
            raise SystemExit

    @classmethod
    def come(cls) -> None:
        """Wait for the threads that build."""
        cls.has_come = True
        for thread in list(_running):
            thread.join()


_running: set[threading.Thread] = set()  # threads that build in the background
atexit.register(_Exit.come)


class _Join:
    """Segments that are being joined, and the removals that have come since."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.numbers = frozenset(segment.number for segment in segments)
        self.missed: list[Removals] = []


class Builds:
    """The folds and merges of an index: at most one of each at a time."""

    def __init__(self, state: State) -> None:
        # Weak: a circle would keep the memory of an index that is dropped.
        self._owner = weakref.ref(state)
        self._is_in_hand = False  # True while a fold holds the staged changes
        self.start_fresh()

    @property
    def _state(self) -> State:
        state = self._owner()
        assert state is not None  # whoever calls has it
        return state

    def start_fresh(self) -> None:
        """Make new locks and forget threads: a forked child must not inherit them in use."""
        self.fold_lock = threading.RLock()  # taken before the other
        self.merge_lock = threading.RLock()
        self._joins: list[_Join] = []
        self.background: dict[str, threading.Thread] = {}
        # Raised by the next call. A forked child lacks the thread that would finish the build.
        self.failure: BaseException | None = UsageError(_FORKED) if self._is_in_hand else None
        self._is_in_hand = False

    def note(self, removals: Removals) -> None:
        """Remember removals that the results of running joins will lack. The caller has the lock."""
        for join in self._joins:
            join.missed.append(removals)

    def is_joined(self, segment: Segment) -> bool:
        """True if a fold or merge is at work on a segment. The caller has the lock."""
        return any(segment.number in join.numbers for join in self._joins)

    def fold(self, staged: bool) -> tuple[Segment, Keys]:
        """Join all segments into one, with the staged changes if `staged`; returns the segment, without
        changes that came later, and the keys that its numbers stand for."""
        folded = self._fold(staged, whole=False)
        assert folded is not None  # it is none only if `whole`
        return folded

    def _fold(self, staged: bool, whole: bool) -> tuple[Segment, Keys] | None:
        """See `fold`. If `whole`, None at a moment at which there are recent additions."""
        state = self._state
        with self.fold_lock:
            with self.merge_lock, state.lock:  # no merge may be at work on the same segments
                if whole and state.snapshot.recent is not None:
                    return None
                removals, rows = state.take() if staged else Changes(state.settings).everything()
                before = state.snapshot.segments
                segments = state.without(removals, before, rows)
                if not len(rows.keys) and len(before) == 1 and not segments[0].n_tombstones:
                    return before[0], state.keys
                join = self._begin(before)
                self._is_in_hand = staged

            def restore(lost: list[Rows]) -> None:
                with state.lock:
                    self._is_in_hand = False
                    self._joins.remove(join)
                    state.put_back(lost, removals)

            handed_over = [rows]
            del rows
            built = self.compile(segments, handed_over, restore)
            with self.merge_lock, state.lock:
                self._is_in_hand = False
                self._finish(join, built, state.shown_log())
                keys = state.keys
                state.forget_names()
            return built, keys

    def fold_whole(self) -> tuple[Segment, Keys]:
        """As `fold`, with the recent additions of a live index: all changes up to one moment and no other."""
        with self.fold_lock, self.merge_lock:  # no merge may take the recent additions meanwhile
            while True:  # another thread may show changes between the two
                built = self._join_recent(whole=True) or self._fold(staged=False, whole=True)
                if built is not None:
                    return built

    def merge(self) -> None:
        """Join the recent additions of a live index and small side segments into one."""
        with self.merge_lock:
            self._join_recent(whole=False)

    def _join_recent(self, whole: bool) -> tuple[Segment, Keys] | None:
        """Join the recent additions with all segments, or else with small ones. None if there are no additions, or
        if their log was made anew meanwhile: see `State.shown_log`. The caller has the lock of merges."""
        state = self._state
        with state.lock:
            column, recent = state.shown_log().column(), state.snapshot.recent
            if recent is None:
                return None
            segments = state.snapshot.segments if whole else self._sides(recent.n_rows)
            join = self._begin(segments)

        def restore(lost: list[Rows]) -> None:
            with state.lock:
                self._joins.remove(join)

        try:
            rows = [recent.staged(column)]
        except BaseException:
            restore([])
            raise
        built = self.compile(segments, rows, restore)
        with state.lock:
            now = state.snapshot.recent
            if now is None or now.values is not recent.values:
                self._joins.remove(join)
                return None
            self._finish(join, built, RecentLog(state.settings, now.rows(recent.n_rows)))
            keys = state.keys
            if whole:
                state.forget_names()
            return built, keys

    def _begin(self, segments: Sequence[Segment]) -> _Join:
        join = _Join(segments)
        self._joins.append(join)
        return join

    def _finish(self, join: _Join, built: Segment, log: RecentLog) -> None:
        """Show a segment in place of those that it was joined from. The caller has the lock."""
        state = self._state
        self._joins.remove(join)
        snapshot = state.snapshot
        current = built.bury(np.empty(0, np.int64), snapshot.version)
        for removals in join.missed:  # no removal may come between the last one and the switch
            current = state.removed(current, removals, snapshot.version)
        segments = [one for one in snapshot.segments if one.number not in join.numbers]
        is_joined = [one.number in join.numbers for one in snapshot.segments]
        segments.insert(is_joined.index(True) if any(is_joined) else len(segments), current)
        state.log = log
        state.show(tuple(segments), snapshot.version)

    def _sides(self, n_rows: int) -> list[Segment]:
        """The last side segments that are small beside `n_rows` additions and each other."""
        sides: list[Segment] = []
        for segment in reversed(self._state.snapshot.segments[1:]):
            if segment.n_keys > _TIMES * n_rows or self.is_joined(segment):
                break
            sides.insert(0, segment)
            n_rows += segment.n_keys
        return sides

    def compile(
        self, segments: Sequence[Segment], staged: list[Rows], restore: Callable[[list[Rows]], None]
    ) -> Segment:
        """Compile segments and staged rows into one segment; on failure `restore` gets the rows.

        Takes the rows out of the list, so that they can be freed early.
        """
        state, start = self._state, perf_counter()
        parts: list[Rows] = []
        rows = staged.pop()
        lent = [rows] if any(segment.n_keys for segment in segments) else []  # joining copies
        try:
            for segment in segments:
                _Exit.check()
                parts += [segment.living()] if segment.n_keys else []
            if len(rows.keys) or not parts:
                parts.append(rows)
            del rows
            _Exit.check()
            built = Segment.compile(state.settings, parts, state.shard_size)
        except BaseException as error:
            kept = lent or parts
            restore(kept)
            outcome = "nothing has changed" if kept else "every addition is lost, too large to keep"
            if not _Exit.has_come:
                _log.warning("consolidation failed, %s: %s", outcome, error)
            raise
        seconds = perf_counter() - start
        _log.info("consolidated %d subscriptions in %.2f s", built.n_keys, seconds)
        return built

    # ---------------------------------------------------------------- in the background

    def keep_small(self) -> None:
        """Merge recent additions and fold side segments in the background if they are many."""
        snapshot = self._state.snapshot
        if snapshot.recent is not None and snapshot.recent.n_rows >= _MERGE_AT:
            self._start("merge", self._merge_many)
        n_side = sum(segment.n_keys for segment in snapshot.segments[1:])
        n_gone = sum(segment.n_tombstones for segment in snapshot.segments[:1])
        n_base = snapshot.segments[0].n_keys if snapshot.segments else 0
        if n_side + n_gone > max(_SIDE_LEAST, n_base // _SIDE_SHARE):
            self._start("fold", lambda: self.fold(staged=False))

    def _merge_many(self) -> None:
        while True:
            recent = self._state.snapshot.recent
            if recent is None or recent.n_rows < _MERGE_AT:
                return
            self.merge()

    def give_way(self) -> None:
        """Let a running merge go on for a moment if there is little room for more additions. Python gives the
        interpreter to a waiting thread only after 5 ms, and a merge gives it back often."""
        merge = self.background.get("merge")
        if merge is not None and merge.is_alive() and self._state.log.n_rows > _GIVE_WAY_AT:
            sleep(_A_MOMENT)

    def _start(self, name: str, work: Callable[[], object]) -> None:
        running = self.background.get(name)
        if _Exit.has_come or (running is not None and running.is_alive()):
            return

        def run() -> None:
            _running.add(thread)
            state = self._owner()  # kept until the work is done
            try:
                if state is not None:
                    work()
            except BaseException as error:
                self.failure = error  # raised by the next call
            finally:
                _running.discard(thread)

        thread = threading.Thread(target=run, name=f"matchyard-{name}", daemon=True)
        self.background[name] = thread
        thread.start()

    def wait(self) -> None:
        """Wait until nothing runs in the background."""
        for thread in list(self.background.values()):
            thread.join()
