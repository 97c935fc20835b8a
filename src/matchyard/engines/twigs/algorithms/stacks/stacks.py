"""stacks: every node of every twig is a column of two stacks, as on a GPU [Twigs].

An opening element pushes a row. A column matches in it if the column has the symbol of the element,
and if its prefix, the column of its parent, matched in the row below, or anywhere below for `//`
[Twigs §3.2]. A closing element pops the row. A column that matched there and whose children were all
reported is reported to the row below [Twigs §3.3]. Both stacks share their entries, a byte per row
and column. The properties of a column are a byte as well, its personality [Twigs §4.3, Table 3].

A GPU has a thread per column; on a CPU, vector code handles many columns at a time [Twigs §4.4]. The
vector code needs the prefix just before its column. That is so for the first child of a node, which
follows it. Other children are *heads* of chains. Heads and names are found by lists per symbol.

Symbols have 32 bits, and twigs any number of nodes. Beyond the paper, a negated child must not have
been reported; a tree has a column for the document, its dummy root, which may have several children;
and a value test is a leaf that reports to the row in which it is satisfied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.encoder.layout import ANY, CLOSE, Batch, Twigs, Vocabulary
from matchyard.engines.twigs.language.model import DOCUMENT, Axis
from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu", "gpu")
subscriptions = stored_twigs.subscriptions

# Bits of an entry. A column for `/` needs HERE in its prefix, a column for `//` needs ABOVE. The
# personality of a column has the bit that the column needs.
HERE = np.uint8(1)  # push stack: matched at the element of this row
ABOVE = np.uint8(2)  # push stack: matched at this element or an ancestor
REPORTED = np.uint8(4)  # pop stack: holds below the element of this row, on the axis of the column

# Further bits of a personality. In a personality, REPORTED means that reports are passed on to the
# rows below.
NEGATED = np.uint8(8)
HAS_DESCENDANTS = np.uint8(16)  # it has children by `//`, which need ABOVE
IS_NEXT = np.uint8(32)  # its prefix is the column before
IS_NEXT_ANY = np.uint8(64)  # its prefix is the column before, and its symbol is `*`

ROOT = -2  # the symbol of the columns of documents; no signal has it


class Options(NamedTuple):
    """This algorithm has no options."""


class Table(NamedTuple):
    """Columns, tree after tree, each with a column for the document first."""

    prefix: NDArray[np.int32]  # [n_columns] the columns of the parents
    personality: NDArray[np.uint8]  # [n_columns + 1] the last is padding
    named_start: NDArray[np.int32]  # [n_symbols + 3] columns by symbol: symbol + 2
    named: NDArray[np.int32]  # of `*`, only heads
    below_start: NDArray[
        np.int32
    ]  # [n_symbols + 3] heads by the symbol of their prefix: symbol + 2
    below: NDArray[np.int32]
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
    """There are no options to check."""


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a table that is unsafe to match: see `kernels.inspection`."""
    stored_twigs.inspect(look, table, vocabulary)
    n_columns = look.length("prefix")
    look.shape("personality", n_columns + 1)
    for name in ("named", "below"):
        n_lists = look.length(f"{name}_start") - 1
        look.offsets(f"{name}_start", n_lists, look.length(name))
    look.same(lambda: stored_twigs.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Twigs, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Give every node a column."""
    return table_of(stored_twigs.store(stored_twigs.distinct(subscriptions, keys)))


def table_of(stored: stored_twigs.Stored) -> Table:
    """The columns of stored twigs."""
    prefix, personality, symbols = _columns(stored)
    is_head = (personality[:-1] & IS_NEXT == 0) & (symbols != ROOT)
    named = np.flatnonzero((symbols >= 0) | (is_head & (symbols == ANY)))
    heads = np.flatnonzero(is_head)
    n_lists = int(symbols.max(initial=ANY)) + 3
    by_name = _lists(symbols[named], named, n_lists)
    by_prefix = _lists(symbols[prefix[heads]], heads, n_lists)
    return Table._make((prefix, personality, *by_name, *by_prefix, *stored))


def _columns(
    stored: stored_twigs.Stored,
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """The prefix, the personality and the symbol of every column."""
    n_nodes = np.diff(stored.tree_start)
    roots = stored.tree_start[:-1] + np.arange(len(n_nodes))
    n_columns = len(stored.tag) + len(n_nodes)
    of_nodes = np.ones(n_columns, bool)
    of_nodes[roots] = False
    columns = np.flatnonzero(of_nodes)
    prefix, symbols = np.arange(n_columns, dtype=np.int32), np.full(n_columns, ROOT, np.int32)
    prefix[columns] = np.repeat(roots, n_nodes) + (stored.parent - DOCUMENT)
    symbols[columns] = stored.tag
    is_descendant = stored.axis == Axis.DESCENDANT
    is_next = prefix[columns] == columns - 1
    personality = np.zeros(n_columns + 1, np.uint8)
    personality[columns] = np.where(is_descendant, ABOVE | REPORTED, HERE)
    personality[columns] |= np.where(stored.is_negated, NEGATED, 0).astype(np.uint8)
    personality[columns[is_next]] |= IS_NEXT
    personality[columns[is_next & (stored.tag == ANY)]] |= IS_NEXT_ANY
    personality[prefix[columns[is_descendant]]] |= HAS_DESCENDANTS
    return prefix, personality, symbols


def _lists(
    symbols: NDArray[np.int32], columns: NDArray[np.int64], n_lists: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Columns by symbol."""
    start = ragged(count_values(symbols - ROOT, n_lists))
    order = np.argsort(symbols, kind="stable")
    return start.astype(np.int32), columns[order].astype(np.int32)


def workspace(table: Table, options: Options) -> None:
    """Nothing is kept between calls."""


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per document; candidates are the columns that signals update."""
    n_rows = int(batch.depth.max(initial=0)) + 1
    stack = np.zeros((n_rows, len(table.personality)), np.uint8)
    hit_start, rows, n_updates = match_documents(table, batch, stack)
    return stored_twigs.finish(table, hit_start, rows, n_updates)


def estimate(n_subscriptions: int, n_nodes: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    return stored_twigs.estimate(n_subscriptions, n_nodes) + 13 * (n_subscriptions + n_nodes)


@njit(nogil=True, cache=True)
def match_documents(table, batch, stack):
    """(hit_start, rows, updated columns) of all documents; the rows of `stack` are one more than their depth."""
    n_documents = len(batch.signal_start) - 1
    held = np.zeros(stack.shape[1], np.uint8)
    hit_start = np.zeros(n_documents + 1, np.int64)
    rows = np.empty(1024, np.int32)
    n_hits, n_updates = np.int64(0), 0
    for document in range(n_documents):
        first, last = batch.signal_start[document], batch.signal_start[document + 1]
        n_updates += _run(table, batch.signals[first:last], stack, held)
        while n_hits + len(table.row_start) > len(rows):
            rows = np.append(rows, np.empty(len(rows), np.int32))
        n_hits = _append_hits(table, held, rows, n_hits)
        hit_start[document + 1] = n_hits
    return hit_start, rows[:n_hits], n_updates


@njit(nogil=True, cache=True)
def _run(table, signals, stack, held):
    """Process the signals of a document; then `held` is 1 at the first columns of matching trees."""
    n_updates = 0
    symbols = np.empty(len(stack), np.int32)
    level = 0
    symbols[0] = ROOT
    _open_document(table, stack[0])
    for signal in signals:
        if signal >= 0:
            level += 1
            symbols[level] = signal
            _push(table, signal, stack[level - 1], stack[level])
            n_updates += len(table.prefix)
        elif signal == CLOSE:
            _hold(table, symbols[level], stack[level], held)
            level -= 1
            _report(table.personality, stack[level + 1], held, stack[level])
            n_updates += len(table.prefix)
        else:
            n_updates += _satisfy(table, -2 - signal, stack[level])
    _hold(table, ROOT, stack[0], held)
    return n_updates


@njit(nogil=True, cache=True)
def _open_document(table, row):
    """Mark the columns of the document as matched."""
    row[:] = 0
    for tree in range(len(table.tree_start) - 1):
        row[table.tree_start[tree] + tree] = HERE | ABOVE


@njit(nogil=True, cache=True)
def _list_of(start, symbol):
    """The range of a symbol in the lists; empty for symbols that are newer than the table."""
    if symbol + 3 < len(start):
        return start[symbol + 2], start[symbol + 3]
    return 0, 0


@njit(nogil=True, cache=True)
def _push(table, symbol, below, row):
    """Push a row [Twigs Figure 5] and clear its reports."""
    _push_all(table.personality, below, row)
    _push_named(table, symbol, below, row)
    _push_named(table, ANY, below, row)


@njit(nogil=True, cache=True)
def _push_named(table, symbol, below, row):
    prefix, personality = table.prefix, table.personality
    first, last = _list_of(table.named_start, symbol)
    for i in range(first, last):
        column = table.named[i]
        kind = personality[column]
        if below[prefix[column]] & kind & (HERE | ABOVE):
            row[column] = _matched(kind)


@njit(nogil=True, cache=True)
def _matched(personality):
    """The entry of a column that matches, with ABOVE only if a child needs it."""
    return np.uint8(HERE | ((personality & HAS_DESCENDANTS) >> 3))


@njit(nogil=True, cache=True)
def _push_all(personality, below, row):
    """Carry ABOVE on, and match the columns of `*` whose prefix is the column before. Slices shift
    by one column, because LLVM makes no vector code of an index j - 1 that could be negative."""
    row[0] = below[0] & ABOVE
    before, here, after, kinds = below[:-1], below[1:], row[1:], personality[1:]
    for j in range(len(after)):
        kind = kinds[j]
        matches = (before[j] & kind & (HERE | ABOVE) != 0) & (kind & IS_NEXT_ANY != 0)
        entry = _matched(kind) if matches else np.uint8(0)
        after[j] = entry | (here[j] & ABOVE)


@njit(nogil=True, cache=True)
def _hold(table, symbol, row, held):
    """Find the columns that matched and whose children are as they must be: reported, or not
    reported if negated [Twigs Figure 6]."""
    _hold_all(table.personality, row, held)
    _refute(table, symbol, row, held)
    _refute(table, ANY, row, held)


@njit(nogil=True, cache=True)
def _refute(table, symbol, row, held):
    """Clear the columns of a symbol below which a head is not as it must be."""
    prefix, personality = table.prefix, table.personality
    first, last = _list_of(table.below_start, symbol)
    for i in range(first, last):
        column = table.below[i]
        held[prefix[column]] &= ((row[column] >> 2) ^ (personality[column] >> 3)) & 1


@njit(nogil=True, cache=True)
def _hold_all(personality, row, held):
    """Consider only the children that are the next column."""
    after, kinds = row[1:], personality[1:]
    for j in range(len(after)):
        is_reported = ((after[j] >> 2) ^ (kinds[j] >> 3)) & 1  # REPORTED unless NEGATED
        has_next = (kinds[j] >> 5) & 1
        held[j] = np.uint8(row[j] & HERE & (is_reported | (has_next ^ 1)))


@njit(nogil=True, cache=True)
def _report(personality, row, held, below):
    """Report the columns that hold to the row below, and pass on reports of descendants."""
    for j in range(len(below)):
        below[j] |= np.uint8((held[j] << 2) | (row[j] & personality[j] & REPORTED))


@njit(nogil=True, cache=True)
def _satisfy(table, symbol, row):
    """Report the columns of a test that the element of this row satisfies; returns how many columns
    have the test."""
    first, last = _list_of(table.named_start, symbol)
    for i in range(first, last):
        column = table.named[i]
        if row[table.prefix[column]] & table.personality[column] & (HERE | ABOVE):
            row[column] |= REPORTED
    return last - first


@njit(nogil=True, cache=True)
def _append_hits(table, held, rows, n_hits):
    """Append the rows with a tree that holds."""
    for row in range(len(table.row_start) - 1):
        for tree in range(table.row_start[row], table.row_start[row + 1]):
            if held[table.tree_start[tree] + tree]:
                rows[n_hits] = row
                n_hits += 1
                break
    return n_hits
