"""prefix_tree: a compact PATRICIA tree over signatures, one tree per Hamming weight.

The strong baseline [TagMatch §4.1]: a path-compressed binary trie of the sorted signatures, in
arrays instead of pointers. It branches on the rarest bits first.

* Every node holds the AND of all signatures below it, which has more bits than its path. If the
  event lacks one of these bits, one test drops the subtree.
* A zero branch with the same common bits as its parent is merged into the parent, since its test
  could not fail. The result is wide nodes: their children lie side by side and are tested eight at
  a time. The signatures of a leaf are its children, stored and tested in the same way.
* A batch of events goes through one tree after the other, so that a tree stays in the cache.

The order of bits decides only the shape: masks and signatures keep the original positions of bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.shared import signed_sets
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.bitset import (
    ONE,
    WORD,
    first_lanes,
    lanes_8,
    lowest_one,
    n_words_for,
    weights,
)
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
LANES = 8  # slots in one test
_TOP = np.uint64(1 << 63)


class Options(NamedTuple):
    """The options of this algorithm."""

    n_bits: int = signed_sets.N_BITS
    n_hashes: int = signed_sets.N_HASHES
    leaf: int = 64  # signatures in a leaf: eight cost one test, a visit of a node costs several
    exact: bool = True  # compare the tags of the sets whose signatures match


class Table(NamedTuple):
    """Nodes first, then signatures: both are columns of `entries`."""

    entries: NDArray[np.uint64]  # [n_words, n_nodes + n_slots + LANES], the last LANES unused
    children: NDArray[np.int32]  # [n_nodes, 2] entries from, to
    roots: NDArray[np.int32]  # [n_trees] entry of each tree's root
    weights: NDArray[np.int32]  # [n_trees] ones in each of its signatures, rising
    tree_start: NDArray[np.int64]  # [n_trees + 1] slots of each tree
    set_start: NDArray[np.int32]  # the rest is as in `signed_sets.Signed` and `kernels.key_table`
    tag_start: NDArray[np.int32]
    tags: NDArray[np.int32]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    signed_sets.check(options.n_bits, options.n_hashes)
    if options.leaf < 1:
        raise UsageError(f'option "leaf" must be at least 1, not {options.leaf}')


def signature_bits(options: Options) -> tuple[int, int, bool]:
    """Bits and hashes of the signatures of a batch, and whether bare ones are allowed."""
    return options.n_bits, options.n_hashes, not options.exact


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_nodes = look.shape("children", None, 2)[0]
    n_slots = look.shape("entries", n_words_for(options.n_bits), None)[1] - LANES - n_nodes
    look.expect("entries", n_slots >= 0, f"has fewer columns than {n_nodes} nodes need")
    n_trees = look.length("roots")
    look.shape("weights", n_trees)
    look.offsets("tree_start", n_trees, n_slots)
    look.values("roots", 0, n_nodes)
    signed_sets.inspect(look, table, vocabulary, n_slots)
    if look.is_thorough:
        _inspect_nodes(look, table, n_slots)


def _inspect_nodes(look: Inspection, table: Table, n_slots: int) -> None:
    """Check the trees: a tree has the nodes from its root to the next root, and its own slots.
    Children come after their parents, and no node or slot has two parents."""
    n_nodes, first, last = len(table.children), *table.children.T.astype(np.int64)
    look.rising("roots", is_strict=True)
    look.expect("roots", not n_nodes or (len(table.roots) and table.roots[0] == 0), "misses nodes")
    tree = np.searchsorted(table.roots, np.arange(n_nodes), side="right") - 1
    is_inner = first < n_nodes
    low = np.where(is_inner, np.arange(n_nodes) + 1, n_nodes + table.tree_start[tree])
    next_root = np.append(table.roots[1:], n_nodes)[tree]
    high = np.where(is_inner, next_root, n_nodes + table.tree_start[tree + 1])
    is_inside = (low <= first) & (first <= last) & (last <= high)
    look.expect("children", is_inside.all(), "leads out of its tree")
    n_parents = np.bincount(first, minlength=n_nodes + n_slots + 1)
    n_parents -= np.bincount(last, minlength=len(n_parents))
    n_parents = np.cumsum(n_parents)
    n_parents[table.roots] += 1
    look.expect("children", n_parents.max(initial=0) <= 1, "gives a node two parents")


def compile(
    subscriptions: Batch, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Sort the signatures by weight and rarest bits, and build the trees over them."""
    signed = signed_sets.sign(subscriptions, keys, vocabulary, options.n_bits, options.n_hashes)
    counts = weights(signed.signatures)
    # Rare bits first: few events have them, so a path fails near its root.
    rank = np.argsort(np.argsort(_bit_counts(signed.signatures), kind="stable"))
    bits = _permuted(signed.signatures, rank)
    order = np.lexsort((*bits[::-1], counts))
    signed = signed_sets.reorder(signed, order)
    tree_weights, tree_start = np.unique(counts[order], return_index=True)
    tree_start = np.append(tree_start, len(order))
    rows = signed.signatures
    masks, children, roots = _build(rows, np.take(bits, order, axis=1), tree_start, options.leaf)
    entries = np.zeros((rows.shape[1], len(masks) + len(rows) + LANES), np.uint64)
    entries[:, : len(masks)] = masks.T
    entries[:, len(masks) : len(masks) + len(rows)] = rows.T
    trees = (entries, children, roots, tree_weights.astype(np.int32), tree_start)
    return Table(*trees, *signed_sets.key_fields(signed))


def workspace(table: Table, options: Options) -> None:
    """None: this algorithm needs no workspace."""


def _find(table: Table, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    pairs, n_found, candidates = _descend_all(table, batch.signatures)
    return *_by_event(pairs, n_found, batch.n_rows), candidates


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event."""
    slot_start, slots, candidates = _find(table, batch)
    return signed_sets.finish(table, batch, slot_start, slots, candidates, options.exact)


def locate(
    table: Table, batch: Batch, workspace: None, options: Options
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The sets that equal each set of the batch."""
    return signed_sets.locate(table, batch, *_find(table, batch)[:2])


def subscriptions(table: Table, rows: NDArray[np.int64]) -> Batch:
    """The tag sets of the given sets."""
    return signed_sets.subscriptions(table, table.entries[:, len(table.children) : -LANES].T, rows)


def estimate(n_subscriptions: int, n_tags: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    return signed_sets.estimate(n_subscriptions, n_tags, options.n_bits)


@njit(nogil=True, cache=True)
def _bit_counts(signatures):
    """Count the rows with each bit, at position 64 * word + bit; bit 0 is the least significant."""
    counts = np.zeros(WORD * signatures.shape[1], np.int64)
    for row in range(len(signatures)):
        for word in range(signatures.shape[1]):
            rest = signatures[row, word]
            while rest:
                counts[WORD * word + lowest_one(rest)] += 1
                rest &= rest - ONE
    return counts


@njit(nogil=True, cache=True)
def _permuted(signatures, rank):
    """Keys for sorting, word by word: bit p of a row becomes the rank[p]-th highest bit."""
    keys = np.zeros((signatures.shape[1], len(signatures)), np.uint64)
    for row in range(len(signatures)):
        for word in range(signatures.shape[1]):
            rest = signatures[row, word]
            while rest:
                position = rank[WORD * word + lowest_one(rest)]
                keys[position >> 6, row] |= _TOP >> np.uint64(position & 63)
                rest &= rest - ONE
    return keys


@njit(nogil=True, cache=True)
def _set_range(ranges, at, low, high):
    ranges[at, 0] = low
    ranges[at, 1] = high


@njit(nogil=True, cache=True)
def _common(rows, low, high, mask):
    """Write the common ones of rows[low:high] to `mask`."""
    mask[:] = rows[low]
    for row in range(low + 1, high):
        for word in range(rows.shape[1]):
            mask[word] &= rows[row, word]


@njit(nogil=True, cache=True)
def _branch(keys, low, high):
    """The first row of the one branch: keys branch at the first bit where the two ends differ."""
    word = 0
    while keys[word, low] == keys[word, high - 1]:
        word += 1
    differ, bit = keys[word, low] ^ keys[word, high - 1], _TOP
    while not differ & bit:
        bit >>= ONE
    while low < high:
        middle = (low + high) >> 1
        if keys[word, middle] & bit:
            high = middle
        else:
            low = middle + 1
    return low


@njit(nogil=True, cache=True)
def _put_children(rows, keys, leaf, masks, ranges, node, n_nodes):
    """Split off one branches until the zero branch becomes a node itself."""
    low, high = ranges[node]
    while True:
        middle = _branch(keys, low, high)
        _set_range(ranges, n_nodes, middle, high)
        _common(rows, middle, high, masks[n_nodes])
        n_nodes += 1
        high = middle
        _common(rows, low, high, masks[n_nodes])  # of the zero branch, kept if it becomes a node
        if high - low <= leaf or (masks[n_nodes] != masks[node]).any():
            _set_range(ranges, n_nodes, low, high)
            return n_nodes + 1


@njit(nogil=True, cache=True)
def _build(rows, keys, tree_start, leaf):
    """Lay the nodes out tree by tree, level by level, so that siblings are adjacent.

    The arrays of nodes are also the queue: a node is appended with its range of rows; the range of
    its children replaces it when the node is processed.
    """
    n_rows, n_words = rows.shape
    n_trees = len(tree_start) - 1
    masks = np.empty((2 * n_rows, n_words), np.uint64)  # an inner node has two children or more
    ranges = np.empty((2 * n_rows, 2), np.int32)
    is_leaf = np.empty(2 * n_rows, np.bool_)
    roots = np.empty(n_trees, np.int32)
    n_nodes, node = 0, 0
    for tree in range(n_trees):
        roots[tree] = n_nodes
        _set_range(ranges, n_nodes, tree_start[tree], tree_start[tree + 1])
        _common(rows, ranges[n_nodes, 0], ranges[n_nodes, 1], masks[n_nodes])
        n_nodes += 1
        while node < n_nodes:
            low, high = ranges[node]
            is_leaf[node] = high - low <= leaf
            if not is_leaf[node]:
                first_child = n_nodes
                n_nodes = _put_children(rows, keys, leaf, masks, ranges, node, n_nodes)
                _set_range(ranges, node, first_child, n_nodes)
            node += 1
    for node in range(n_nodes):
        if is_leaf[node]:
            ranges[node] += n_nodes  # signatures follow the nodes
    return masks[:n_nodes].copy(), ranges[:n_nodes].copy(), roots


@njit(nogil=True, cache=True)
def _inside(entries, at, end, absent, event):
    """The bits of the LANES entries from `at` on, and before `end`, that lie in the event."""
    bits, word = first_lanes(min(end - at, LANES)), 0
    while bits and word < len(entries):
        bits &= lanes_8(entries[word], at, absent[event, word])
        word += 1
    return bits


@njit(nogil=True, cache=True)
def _descend(table, root, absent, event, stack, pairs, n_found):
    """Append the (event, slot) pairs of one tree. `pairs` has room for the whole tree: a check for
    room inside this loop halves its speed."""
    n_nodes, candidates = len(table.children), 0
    _set_range(stack, 0, root, root + 1)
    top = 1
    while top:
        top -= 1
        at, end = np.int64(stack[top, 0]), np.int64(stack[top, 1])
        is_inner = at < n_nodes
        if not is_inner:
            candidates += end - at
        while at < end:
            bits = _inside(table.entries, at, end, absent, event)
            while bits:
                entry = at + lowest_one(bits)
                bits &= bits - ONE
                if is_inner:
                    _set_range(stack, top, table.children[entry, 0], table.children[entry, 1])
                    top += 1
                else:
                    _set_range(pairs, n_found, event, entry - n_nodes)
                    n_found += 1
            at += LANES
    return n_found, candidates


@njit(nogil=True, cache=True)
def _descend_all(table, signatures):
    """Search tree by tree, with every event that has enough ones."""
    event_weights, absent = weights(signatures), ~signatures
    stack = np.empty((len(table.children) + 1, 2), np.int32)  # a node is pushed at most once
    pairs = np.empty((1024, 2), np.int32)
    n_found, candidates = 0, 0
    for tree in range(len(table.roots)):
        n_slots = table.tree_start[tree + 1] - table.tree_start[tree]
        for event in range(len(signatures)):
            if event_weights[event] < table.weights[tree]:
                continue
            if n_found + n_slots > len(pairs):
                larger = np.empty((2 * n_found + n_slots, 2), np.int32)
                larger[:n_found] = pairs[:n_found]
                pairs = larger
            n_found, looked_at = _descend(
                table, table.roots[tree], absent, event, stack, pairs, n_found
            )
            candidates += looked_at
    return pairs, n_found, candidates


@njit(nogil=True, cache=True)
def _by_event(pairs, n_found, n_events):
    """Group the pairs by event with a counting sort: (start, slots)."""
    start = np.zeros(n_events + 1, np.int64)
    for i in range(n_found):
        start[pairs[i, 0] + 1] += 1
    for event in range(n_events):
        start[event + 1] += start[event]
    next_start = start.copy()
    slots = np.empty(n_found, np.int32)
    for i in range(n_found):
        event = pairs[i, 0]
        slots[next_start[event]] = pairs[i, 1]
        next_start[event] += 1
    return start, slots
