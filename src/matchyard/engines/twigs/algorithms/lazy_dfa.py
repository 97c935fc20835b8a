"""lazy_dfa: one look-up per event, however many twigs there are.

Equal subtrees of all twigs are one class (`_classes`). Going down, the state of an element says
which classes it and the elements below may satisfy; going up, a frame says which of their
requirements have been met. Both depend on few things only, so that documents of one kind soon meet
nothing new (`_cache`): an element that opens is a look-up in a table, one that closes is a look-up
by hash. Where much is met in one element, such as the root of a large document, what is met
is kept as bits instead, since no two such elements are alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs._coded import ANY, CLOSE, Axis, Batch, Twigs, Vocabulary
from matchyard.engines.twigs.algorithms import _stored
from matchyard.engines.twigs.algorithms._cache import (
    EMPTY,
    N_CLEARED,
    UNKNOWN,
    clear,
    find_state,
    find_step,
    has_room,
    intern_frame,
    intern_set,
    intern_state,
    new_cache,
    note_step,
    set_of,
)
from matchyard.engines.twigs.algorithms._classes import classes
from matchyard.errors import UsageError
from matchyard.kernels.bitset import lowest_one
from matchyard.matches import Part

DEVICES = ("cpu",)
_CHILD, _DESCENDANT = int(Axis.CHILD), int(Axis.DESCENDANT)
_NO_TAG = np.int32(-2)  # of the class that stands for the document
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_MISSES = 4  # steps that were not known yet, after which an element is kept as bits
_STAMPS = 1 << 16  # sets that an element was seen to take up, by hash


class Options(NamedTuple):
    """What can be set."""

    cache_bytes: int = 1 << 27  # about, per thread; what is open at a time is kept in any case
    small: int = 256  # requirements met in an element up to which it is remembered as a frame


class Table(NamedTuple):
    """The classes of all twigs, and the twigs themselves."""

    n_tags: NDArray[np.int64]  # [1] one more than the last tag that a twig has
    class_tag: NDArray[np.int32]  # see `_classes.Classes`, and so the next
    condition_start: NDArray[np.int32]
    conditions: NDArray[np.int32]
    requirement_class: NDArray[np.int32]
    requirement_axis: NDArray[np.uint8]
    class_requirement: NDArray[np.int32]
    asking_start: NDArray[np.int32]
    asking_conditions: NDArray[np.int32]
    asked_start: NDArray[np.int32]
    asked_trees: NDArray[np.int32]
    free_trees: NDArray[np.int32]
    tree_row: NDArray[np.int32]
    row_start: NDArray[np.int32]  # see `_stored.Stored`, and so the rest
    tree_start: NDArray[np.int32]
    parent: NDArray[np.int32]
    axis: NDArray[np.uint8]
    is_negated: NDArray[np.bool_]
    tag: NDArray[np.int32]
    key_start: NDArray[np.int32]
    keys: NDArray[np.int64]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    for name, value in options._asdict().items():
        if value < 0:
            raise UsageError(f'option "{name}" must be at least 0, not {value}')


def compile(
    subscriptions: Twigs, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Find the classes of all twigs, with one more that stands for the document."""
    stored: Any = _stored.store(_stored.distinct(subscriptions, keys))
    found = classes(_stored.twigs_of(stored))
    wanted = np.unique(found.tree_conditions)
    n_tags = np.array([max(int(stored.tag.max(initial=0)), 0) + 1])
    start = np.append(found.condition_start, found.condition_start[-1] + np.int32(len(wanted)))
    own = (
        n_tags,
        np.append(found.class_tag, _NO_TAG),
        start.astype(np.int32),
        np.concatenate([found.conditions, wanted.astype(np.int32)]),
        found.requirement_class,
        found.requirement_axis,
        np.concatenate([found.class_requirement, np.full((1, 2), -1, np.int32)]),
    )
    return Table._make((*own, *found[6:], *stored))


class Workspace:
    """The cache of one thread."""

    def __init__(self, table: Table, options: Options) -> None:
        self.n_bytes = options.cache_bytes
        self.cache = self._new(table)
        self.stamps = np.empty(_STAMPS, np.int64)
        self.seen = np.full(len(table.key_start) - 1, -1, np.int64)
        self.n_seen = 0

    def _new(self, table: Table) -> Any:
        most = 4 * (len(table.class_tag) + len(table.requirement_class)) + 64
        return new_cache(int(table.n_tags[0]), self.n_bytes, 4 * most)

    @property
    def n_forgotten(self) -> int:
        """How often the cache was full."""
        return int(self.cache.used[N_CLEARED]) - 1

    def enlarge(self, table: Table) -> None:
        """Make a cache of twice the size."""
        self.n_bytes = 2 * max(self.n_bytes, 4096)
        self.cache = self._new(table)


def workspace(table: Table, options: Options) -> Workspace:
    """An empty cache."""
    return Workspace(table, options)


def match(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """The keys per document; candidates are the trees of which a requirement was met."""
    depth = int(batch.depth.max(initial=0)) + 3
    n_words = (len(table.requirement_class) + 63) // 64
    levels = Levels(
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros((depth, n_words), np.uint64),
        np.zeros(n_words, np.uint64),
        np.zeros(n_words, np.uint64),
        workspace.stamps,
    )
    hit_start = np.zeros(batch.n_rows + 1, np.int64)
    parts, candidates, first = [np.empty(0, np.int32)], 0, 0
    while first < batch.n_rows:
        done, hits, n_looked = _match(
            table, workspace.cache, batch, first, levels, options.small,
            workspace.seen, workspace.n_seen, hit_start,
        )  # fmt: skip
        parts.append(hits)
        candidates += n_looked
        workspace.n_seen += batch.n_rows
        if done < batch.n_rows:
            workspace.enlarge(table)
        first = done
    return _stored.finish(table, hit_start, np.concatenate(parts), candidates)


subscriptions = _stored.subscriptions


def estimate(n_subscriptions: int, n_parts: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    return _stored.estimate(n_subscriptions, n_parts) + 30 * n_parts + 12 * n_subscriptions


class Levels(NamedTuple):
    """The open elements, and scratch memory."""

    frames: NDArray[np.int64]  # by depth; -1 for one that is kept as bits
    states: NDArray[np.int64]
    element: NDArray[np.int64]  # counted from 1
    misses: NDArray[np.int64]  # steps that were not known yet
    bits: NDArray[np.uint64]  # [depth, n_words] the requirements met
    scratch: NDArray[np.uint64]  # this and the next are zeros between uses
    found: NDArray[np.uint64]
    stamps: NDArray[np.int64]  # sets that an element has taken up already, by hash


_AS_BITS = -1


@njit(nogil=True, cache=True)
def _match(table, cache, batch, first, levels, small, seen, n_seen, hit_start):
    """The rows of the documents from `first` on: (up to which, rows, trees looked at). It stops
    before a document whose open elements the cache cannot hold."""
    events, event_start = batch.events, batch.event_start
    next_state, frame_up, n_tags = cache.next_state, cache.frame_up, table.n_tags[0]
    first_frame, step_keys, step_frames = cache.first_frame, cache.step_keys, cache.step_frames
    frames, states, element = levels.frames, levels.states, levels.element
    misses, stamps, n_elements = levels.misses, levels.stamps, 0
    stamps[:] = -1
    most = 4 * (len(table.class_tag) + len(table.requirement_class)) + 64
    hits, n_hits, n_looked, n_before = np.empty(256, np.int32), 0, 0, hit_start[first]
    is_full = False
    for document in range(first, len(event_start) - 1):
        n_elements += 1
        element[0] = n_elements
        misses[0] = 0
        states[0] = _document_state(table, cache)
        frames[0] = _AS_BITS
        levels.bits[0] = _ZERO
        level = 0
        for i in range(event_start[document], event_start[document + 1]):
            event = events[i]
            if is_full:
                _forget(cache, levels, level)
                is_full = False
                if not has_room(cache, most):
                    return document, hits[:n_hits], n_looked
            if event >= 0:
                tag = event if event < n_tags else np.int32(0)
                found = np.int64(next_state[states[level], tag])
                if found == UNKNOWN:
                    found = _enter(table, cache, states[level], tag, False) + 1
                    is_full = not has_room(cache, most)
                level += 1
                n_elements += 1
                element[level] = n_elements
                misses[level] = 0
                states[level] = found - 1
                frames[level] = first_frame[found - 1]
                continue
            if event == CLOSE:
                frame = frames[level]
                up = frame_up[frame] - 1 if frame >= 0 else np.int64(-1)
                if up < 0:
                    up = _close(table, cache, levels, level)
                    is_full = not has_room(cache, most)
                level -= 1
            else:
                tag = np.int32(-2) - event
                if tag >= n_tags:
                    continue
                found = np.int64(next_state[states[level], tag])
                if found == UNKNOWN:
                    found = _enter(table, cache, states[level], tag, True) + 1
                    is_full = not has_room(cache, most)
                frame = np.int64(first_frame[found - 1])
                up = np.int64(frame_up[frame]) - 1
                if up < 0:
                    up = _close_frame(table, cache, levels, frame)
                    is_full = not has_room(cache, most)
            if up == EMPTY:
                continue
            frame = frames[level]
            if frame >= 0:
                found = find_step(step_keys, step_frames, frame, up)
                if found != UNKNOWN:
                    frames[level] = found - 1
                    continue
            else:
                stamp = (element[level] << 32) | up
                place = (up * 40503 + element[level]) & (_STAMPS - 1)
                if stamps[place] == stamp:
                    continue
                stamps[place] = stamp
            _meet(cache, levels, level, up, small)
            is_full = not has_room(cache, most)
        hits, n_hits, n_here = _rows(table, levels, seen, n_seen + document, hits, n_hits)
        n_looked += n_here
        hit_start[document + 1] = n_before + n_hits
    return len(event_start) - 1, hits[:n_hits], n_looked


@njit(nogil=True, cache=True)
def _document_state(table, cache):
    """The state of a document in which nothing is open."""
    entered = intern_set(cache, np.array([len(table.class_tag) - 1], np.int32))
    return _state(table, cache, entered, EMPTY, EMPTY)


@njit(nogil=True, cache=True)
def _state(table, cache, entered, above, asking):
    """The state of an element that enters these classes, below the deep requirements `above`."""
    own = set_of(cache, entered)
    n_most = len(set_of(cache, above))
    for number in own:
        n_most += table.condition_start[number + 1] - table.condition_start[number]
    near, deep = np.empty(n_most, np.int32), np.empty(n_most, np.int32)
    n_near, n_deep = 0, 0
    for number in own:
        for c in range(table.condition_start[number], table.condition_start[number + 1]):
            requirement = table.conditions[c] >> 1
            if table.requirement_axis[requirement] == _CHILD:
                near[n_near] = requirement
                n_near += 1
            else:
                deep[n_deep] = requirement
                n_deep += 1
    for requirement in set_of(cache, above):
        deep[n_deep] = requirement
        n_deep += 1
    deep = _ascending(deep[:n_deep])
    deep_set = intern_set(cache, deep)
    found = find_state(cache, entered, deep_set, asking)
    if found >= 0:
        return found
    relevant = intern_set(cache, _ascending(np.concatenate((near[:n_near], deep))))
    return intern_state(cache, entered, deep_set, asking, relevant)


@njit(nogil=True, cache=True)
def _ascending(numbers):
    """The numbers in order, each once."""
    numbers = np.sort(numbers)
    n_kept = 0
    for i in range(len(numbers)):
        if i == 0 or numbers[i] != numbers[i - 1]:
            numbers[n_kept] = numbers[i]
            n_kept += 1
    return numbers[:n_kept]


@njit(nogil=True, cache=True)
def _enter(table, cache, state, tag, is_leaf):
    """The state of an element or leaf with that tag in an element of the given state."""
    wanted = set_of(cache, cache.relevant[state])
    entered = np.empty(len(wanted), np.int32)
    n_entered = 0
    for requirement in wanted:
        number = table.requirement_class[requirement]
        own = table.class_tag[number]
        if own == tag or (own == ANY and not is_leaf):
            entered[n_entered] = number
            n_entered += 1
    entered_set = intern_set(cache, _ascending(entered[:n_entered]))
    if is_leaf:  # it has nothing below
        found = find_state(cache, entered_set, EMPTY, cache.relevant[state])
        if found < 0:
            found = intern_state(cache, entered_set, EMPTY, cache.relevant[state], EMPTY)
    else:
        found = _state(table, cache, entered_set, cache.deep[state], cache.relevant[state])
    cache.next_state[state, tag] = found + 1
    return found


@njit(nogil=True, cache=True)
def _close(table, cache, levels, level):
    """What the element at that level meets for those above: a set of requirements."""
    frame = levels.frames[level]
    if frame != _AS_BITS:
        return _close_frame(table, cache, levels, frame)
    state, bits, found = levels.states[level], levels.bits[level], levels.found
    for number in set_of(cache, cache.entered[state]):
        if _holds(table.condition_start, table.conditions, number, bits):
            for axis in range(2):
                _set_bit(found, table.class_requirement[number, axis])
    asking = set_of(cache, cache.asking[state])
    met = np.empty(len(asking), np.int32)
    n_met = 0
    for requirement in asking:
        is_met = _has_bit(found, requirement)
        if table.requirement_axis[requirement] == _DESCENDANT:
            is_met |= _has_bit(bits, requirement)
        met[n_met] = requirement
        n_met += is_met
    found[:] = _ZERO
    if level > 1:
        return intern_set(cache, met[:n_met])
    for requirement in met[:n_met]:  # hardly any two documents have the same set
        _set_bit(levels.bits[0], requirement)
    return np.int64(EMPTY)


@njit(nogil=True, cache=True)
def _close_frame(table, cache, levels, frame):
    """The same of a frame, once for all."""
    bits, state = levels.scratch, cache.frame_state[frame]
    met, own = set_of(cache, cache.frame_met[frame]), set_of(cache, cache.entered[state])
    for requirement in met:
        _set_bit(bits, requirement)
    found = np.empty(2 * len(own) + len(met), np.int32)
    n_found = 0
    for number in own:
        if _holds(table.condition_start, table.conditions, number, bits):
            for axis in range(2):
                found[n_found] = table.class_requirement[number, axis]
                n_found += found[n_found] >= 0
    for requirement in met:
        found[n_found] = requirement
        n_found += table.requirement_axis[requirement] == _DESCENDANT
        bits[requirement >> 6] = _ZERO
    asking = set_of(cache, cache.asking[state])
    up = intern_set(cache, _common(_ascending(found[:n_found]), asking))
    cache.frame_up[frame] = up + 1
    return up


@njit(nogil=True, cache=True, forceinline=True)
def _set_bit(bits, number):
    if number >= 0:
        bits[number >> 6] |= _ONE << np.uint64(number & 63)


@njit(nogil=True, cache=True, forceinline=True)
def _has_bit(bits, number):
    return (bits[number >> 6] >> np.uint64(number & 63)) & _ONE != _ZERO


@njit(nogil=True, cache=True, forceinline=True)
def _holds(start, conditions, number, bits):
    """Are the requirements met, or not, as the conditions have it?"""
    for c in range(start[number], start[number + 1]):
        if _has_bit(bits, conditions[c] >> 1) == (conditions[c] & 1):
            return False
    return True


@njit(nogil=True, cache=True)
def _meet(cache, levels, level, up, small):
    """Take up what a child met."""
    more, bits = set_of(cache, up), levels.bits[level]
    frame = levels.frames[level]
    if frame != _AS_BITS:
        known = set_of(cache, cache.frame_met[frame])
        met = _ascending(np.concatenate((known, more)))
        levels.misses[level] += 1
        if len(met) <= small and levels.misses[level] <= _MISSES:
            found = intern_frame(cache, levels.states[level], intern_set(cache, met))
            note_step(cache, frame, up, found)
            levels.frames[level] = found
            return
        levels.frames[level] = _AS_BITS
        bits[:] = _ZERO
        for requirement in known:
            _set_bit(bits, requirement)
    for requirement in more:
        _set_bit(bits, requirement)


@njit(nogil=True, cache=True)
def _common(left, right):
    """What both sets have."""
    found = np.empty(min(len(left), len(right)), np.int32)
    n_found, i, j = 0, 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            found[n_found] = left[i]
            n_found += 1
        is_less = left[i] <= right[j]
        j += left[i] >= right[j]
        i += is_less
    return found[:n_found]


@njit(nogil=True, cache=True)
def _forget(cache, levels, level):
    """Clear the cache, keeping what the open elements need."""
    start = np.zeros(5 * (level + 1) + 1, np.int64)
    for at in range(level + 1):
        for i in range(5):
            start[5 * at + i + 1] = start[5 * at + i] + len(_kept(cache, levels, at, i))
    members = np.empty(start[-1], np.int32)
    for at in range(level + 1):
        for i in range(5):
            members[start[5 * at + i] : start[5 * at + i + 1]] = _kept(cache, levels, at, i)
    clear(cache)
    levels.stamps[:] = -1
    sets = np.empty(5, np.int64)
    for at in range(level + 1):
        for i in range(5):
            number = 5 * at + i
            sets[i] = intern_set(cache, members[start[number] : start[number + 1]])
        state = find_state(cache, sets[0], sets[1], sets[2])
        if state < 0:
            state = intern_state(cache, sets[0], sets[1], sets[2], sets[3])
        levels.states[at] = state
        if levels.frames[at] != _AS_BITS:
            levels.frames[at] = intern_frame(cache, state, sets[4])


@njit(nogil=True, cache=True)
def _kept(cache, levels, level, number):
    """One of the five sets of an open element."""
    state, frame = levels.states[level], levels.frames[level]
    if number == 0:
        return set_of(cache, cache.entered[state])
    if number == 1:
        return set_of(cache, cache.deep[state])
    if number == 2:
        return set_of(cache, cache.asking[state])
    if number == 3:
        return set_of(cache, cache.relevant[state])
    return set_of(cache, cache.frame_met[frame] if frame != _AS_BITS else EMPTY)


@njit(nogil=True, cache=True)
def _rows(table, levels, seen, mark, hits, n_hits):
    """Append the rows of a document: (hits, how many, trees looked at)."""
    bits, n_looked = levels.bits[0], 0
    start, conditions = table.asking_start, table.asking_conditions
    for at in range(len(bits)):
        word = bits[at]
        while word != _ZERO:
            requirement = 64 * at + lowest_one(word)
            word &= word - _ONE
            for i in range(table.asked_start[requirement], table.asked_start[requirement + 1]):
                tree = table.asked_trees[i]
                n_looked += 1
                row = table.tree_row[tree]
                if seen[row] != mark and _holds(start, conditions, tree, bits):
                    seen[row] = mark
                    hits = _with_room(hits, n_hits)
                    hits[n_hits] = row
                    n_hits += 1
    for tree in table.free_trees:
        n_looked += 1
        row = table.tree_row[tree]
        if seen[row] != mark and _holds(start, conditions, tree, bits):
            seen[row] = mark
            hits = _with_room(hits, n_hits)
            hits[n_hits] = row
            n_hits += 1
    return hits, n_hits, n_looked


@njit(nogil=True, cache=True)
def _with_room(hits, n_hits):
    if n_hits < len(hits):
        return hits
    larger = np.empty(2 * len(hits), np.int32)
    larger[:n_hits] = hits
    return larger
