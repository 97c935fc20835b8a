"""yfilter: one automaton finds the paths of all twigs, which are then joined [YFilter].

Every root-to-leaf path of every twig is a path of one automaton (`path_automaton`). The automaton
reads the signals of a document and finds the elements where each path ends, and thus the candidates
for every node of a twig (`sections`). Twigs whose paths were all found are then joined, node by node
from the leaves up: a node holds at an element below which each child holds, and no negated child
[YFilter] (`joins`).

Joining waits for the end of the document, or of a section of `section` elements. In a longer document
all twigs are joined section by section, since two paths of a twig may be in different sections.
Results within elements that are still open are carried on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.algorithms.yfilter import joins, path_automaton, sections
from matchyard.engines.twigs.algorithms.yfilter.path_automaton import (
    Paths,
    enter,
    leave,
    reach,
    room,
)
from matchyard.engines.twigs.encoder.layout import CLOSE, Batch, Twigs, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
subscriptions = stored_twigs.subscriptions


class Options(NamedTuple):
    """Options of this algorithm."""

    section: int = 240  # elements whose path matches are joined at a time


class Table(NamedTuple):
    """The automaton, and the trees prepared for joining."""

    state_of: NDArray[np.int32]  # these seven as in `path_automaton.Paths`
    state_axis: NDArray[np.uint8]
    state_kind: NDArray[np.uint8]
    any_child: NDArray[np.int32]
    any_descendant: NDArray[np.int32]
    step_keys: NDArray[np.int64]
    step_states: NDArray[np.int32]
    nodes: NDArray[np.int32]  # these four as in `joins.Trees`
    wanted_start: NDArray[np.int32]
    wanted: NDArray[np.int32]
    is_final: NDArray[np.bool_]
    row_start: NDArray[np.int32]  # the rest is as in `stored_twigs.Stored`
    tree_start: NDArray[np.int32]
    parent: NDArray[np.int32]
    axis: NDArray[np.uint8]
    is_negated: NDArray[np.bool_]
    tag: NDArray[np.int32]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def check(options: Options) -> None:
    """Refuse an empty section."""
    if options.section < 1:
        raise UsageError(f'option "section" must be at least 1, not {options.section}')


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a table that is unsafe to match: see `kernels.inspection`."""
    stored_twigs.inspect(look, table, vocabulary)
    n_nodes, n_trees = len(table.tag), len(table.tree_start) - 1
    look.shape("state_of", n_nodes)
    n_states = look.length("state_axis")
    for name in ("state_kind", "any_child", "any_descendant"):
        look.shape(name, n_states)
    n_steps = look.length("step_keys")
    look.shape("step_states", n_steps)
    look.shape("nodes", n_nodes, 2)
    look.offsets("wanted_start", n_trees, look.length("wanted"))
    look.flags("is_final", n_trees)
    look.same(lambda: stored_twigs.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Twigs, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Build the automaton."""
    stored = stored_twigs.store(stored_twigs.distinct(subscriptions, keys))
    paths = path_automaton.build(stored)
    return Table._make((*paths, *joins.prepare(stored, paths.state_of), *stored))


class Workspace:
    """Arrays that matching changes: made by the first batch, and enlarged by later ones."""

    def __init__(self, table: Table) -> None:
        self.paths = Paths._make(table[: len(Paths._fields)])
        self.n_levels = self.n_elements = -1
        self.carries = False

    def make_room(self, table: Table, n_levels: int, n_elements: int, section: int) -> None:
        """Make room for documents of `n_elements` elements with `n_levels` levels."""
        is_cut = n_elements > section
        n_elements = min(n_elements, section)
        has_room = n_levels <= self.n_levels and n_elements <= self.n_elements
        if has_room and is_cut <= self.carries:
            return
        self.n_levels = max(self.n_levels, n_levels)
        self.n_elements = max(self.n_elements, n_elements)
        self.carries |= is_cut
        self.section = sections.make(len(table.state_kind), self.n_elements, self.n_levels)
        self.joining = joins.make(table.tree_start, len(self.section.closed), self.carries)
        self.active = path_automaton.activate(self.paths, self.n_levels)


def workspace(table: Table, options: Options) -> Workspace:
    """An empty workspace."""
    return Workspace(table)


def match(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """The keys per document; candidates are the nodes that were joined."""
    n_elements = int(np.diff(batch.signal_start).max(initial=0)) // 2  # all close as well
    workspace.make_room(table, int(batch.depth.max(initial=0)), n_elements, options.section)
    hit_start, rows, n_joined = _match(
        table, workspace.paths, batch, workspace.section, workspace.active, workspace.joining,
        workspace.n_elements,
    )  # fmt: skip
    return stored_twigs.finish(table, hit_start, rows, n_joined)


def estimate(n_subscriptions: int, n_nodes: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys, if half of the nodes have states of their own."""
    return stored_twigs.estimate(n_subscriptions, n_nodes) + 5 * n_subscriptions + 31 * n_nodes


@njit(nogil=True, cache=True)
def _match(table, paths, batch, section, active, joining, n_elements):
    n_documents = len(batch.signal_start) - 1
    here = np.empty(2 * len(paths.state_kind), np.int32)
    hit_start = np.zeros(n_documents + 1, np.int64)
    rows = np.empty(1024, np.int32)
    n_hits, n_joined = np.int64(0), 0
    for document in range(n_documents):
        first, last = batch.signal_start[document], batch.signal_start[document + 1]
        joining.is_held[:] = 0
        n_more, here = _run(
            table, paths, batch.signals[first:last], section, active, joining, n_elements, here
        )
        n_joined += n_more
        while n_hits + len(table.row_start) > len(rows):
            rows = np.append(rows, np.empty(len(rows), np.int32))
        n_hits = _append_hits(table, joining.is_held, rows, n_hits)
        hit_start[document + 1] = n_hits
    return hit_start, rows[:n_hits], n_joined


@njit(nogil=True, cache=True)
def _run(table, paths, signals, section, active, joining, n_elements, here):
    """Process the signals of a document; returns how many nodes were joined, and the stack."""
    level, n_joined = np.int64(0), 0  # a literal 0 has a type of its own: `_join` compiles twice
    is_first = level == 0
    path_automaton.begin(paths, active, here)
    sections.begin(section, 0)
    for signal in signals:
        if signal >= 0:
            if sections.n_new(section) == n_elements:
                n_joined += _join(table, section, joining, level, is_first, False)
                _continue(section, active, level, here)
                is_first = False
            here = room(paths, active, level, here)
            level += 1
            enter(paths, active, level, signal, here)
            bit = sections.open_element(section, level)
            for i in range(active.start[level], active.start[level + 1]):
                sections.record(section, here[i], bit)
        elif signal == CLOSE:
            sections.close_element(section, level)
            leave(active, level)
            level -= 1
        else:
            here = room(paths, active, level, here)
            end = reach(paths, active, level, -2 - signal, False, here)
            for i in range(active.start[level + 1], end):
                axis = paths.state_axis[here[i]]
                sections.record_test(section, here[i], axis, section.bit_at[level])
    return n_joined + _join(table, section, joining, level, is_first, True), here


@njit(nogil=True, cache=True)
def _continue(section, active, level, here):
    """Start a new section, with the states of the open elements."""
    sections.begin(section, level)
    for above in range(1, level + 1):
        for i in range(active.start[above], active.start[above + 1]):
            sections.record(section, here[i], above)


@njit(nogil=True, cache=True)
def _join(table, section, joining, level, is_first, is_last):
    """Join the trees that are not yet decided; returns how many nodes they have."""
    sections.surround(section, table.state_axis)
    nodes, tree_start, selected = table.nodes, table.tree_start, joining.selected
    if is_first and is_last:
        n = joins.select_found(table.wanted_start, table.wanted, section.is_touched, selected)
        joins.verify_whole(nodes, tree_start, n, section, joining)
    else:
        n = joins.select_undecided(joining.is_held, selected)
        joins.verify_part(
            nodes, tree_start, n, section, joining, level, is_first, is_last, table.is_final
        )
    n_joined = 0
    for tree in selected[:n]:
        n_joined += tree_start[tree + 1] - tree_start[tree]
    return n_joined


@njit(nogil=True, cache=True)
def _append_hits(table, is_held, rows, n_hits):
    """Append the rows with a tree that holds."""
    for row in range(len(table.row_start) - 1):
        for tree in range(table.row_start[row], table.row_start[row + 1]):
            if is_held[tree]:
                rows[n_hits] = row
                n_hits += 1
                break
    return n_hits
