"""lazy_dfa: one look-up per signal, however many twigs there are.

Equal subtrees of all twigs are one requirement (`requirements`). On the way down, the state of an
element holds the requirements that the element and its descendants may meet (`states`). On the way
up, a frame holds the requirements that were met (`open_elements`), and those that the element meets
when it closes (`closing`). States and frames are stored (`cache`), and documents of one kind soon
need no new ones: an opening is then a look-up in a table, a closing is a look-up by hash. Elements
that meet many requirements, such as the root of a large document, hardly ever repeat. They keep the
requirements as bits instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.lazy_dfa import one_event
from matchyard.engines.twigs.algorithms.lazy_dfa.documents import Workspace, match_documents
from matchyard.engines.twigs.algorithms.lazy_dfa.requirements import N_OTHERS, requirements
from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.encoder.layout import Batch, Twigs, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
Finder = one_event.Finder


class Options(NamedTuple):
    """Options of this algorithm."""

    cache_bytes: int = 1 << 28  # about, per thread; open elements may need more
    small: int = 1024  # an element with more words of 64 met requirements is kept as bits


class Table(NamedTuple):
    """The requirements of all twigs, and the twigs themselves."""

    tag_start: NDArray[np.int32]  # see `Requirements`, and so the next; a tag here is a symbol
    lead: NDArray[np.uint32]
    others: NDArray[np.uint32]
    more_start: NDArray[np.int32]
    more: NDArray[np.int32]
    has_more: NDArray[np.uint64]
    is_free: NDArray[np.uint64]
    is_deep: NDArray[np.uint64]
    led_start: NDArray[np.int32]
    led: NDArray[np.int32]
    tops: NDArray[np.int32]
    asking_start: NDArray[np.int32]
    asking_conditions: NDArray[np.int32]
    asked_start: NDArray[np.int32]
    asked: NDArray[np.int32]
    free_trees: NDArray[np.int32]
    tree_row: NDArray[np.int32]
    row_start: NDArray[np.int32]  # see `stored_twigs.Stored`, and so the rest
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
    """Refuse negative options."""
    for name, value in options._asdict().items():
        if value < 0:
            raise UsageError(f'option "{name}" must be at least 0, not {value}')


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a table that is unsafe to match: see `kernels.inspection`."""
    stored_twigs.inspect(look, table, vocabulary)
    n_numbers, n_words = look.length("lead"), look.length("is_deep")
    look.shape("others", n_numbers, N_OTHERS)
    look.offsets("tag_start", look.length("tag_start") - 1, n_numbers - 1)
    look.offsets("more_start", n_numbers, look.length("more"))
    for name in ("has_more", "is_free"):
        look.shape(name, n_words)
    look.offsets("led_start", n_numbers, look.length("led"))
    look.length("tops")
    n_trees = look.shape("tree_row", len(table.tree_start) - 1)[0]
    look.offsets("asking_start", n_trees, look.length("asking_conditions"))
    look.offsets("asked_start", 64 * n_words, look.length("asked"))
    look.length("free_trees")
    look.same(lambda: stored_twigs.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Twigs, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Find the requirements of all twigs."""
    stored: Any = stored_twigs.store(stored_twigs.distinct(subscriptions, keys))
    return Table._make((*requirements(stored_twigs.twigs_of(stored)), *stored))


def workspace(table: Table, options: Options) -> Workspace:
    """An empty cache."""
    return Workspace(table, options)


def match(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """The keys per document; candidates are the trees with a met requirement."""
    levels = workspace.levels(int(batch.depth.max(initial=0)))
    hit_start = np.zeros(batch.n_rows + 1, np.int64)
    parts, candidates, first = [np.empty(0, np.int32)], 0, 0
    while first < batch.n_rows:
        done, hits, n_looked = match_documents(
            table, workspace.cache, batch, first, levels, options.small,
            workspace.seen, workspace.n_seen, hit_start, workspace.n_bytes < workspace.most,
        )  # fmt: skip
        parts.append(hits)
        candidates += n_looked
        workspace.n_seen += batch.n_rows
        if done < batch.n_rows:
            workspace.enlarge(table)
        first = done
    return stored_twigs.finish(table, hit_start, np.concatenate(parts), candidates)


subscriptions = stored_twigs.subscriptions


def estimate(n_subscriptions: int, n_parts: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    return stored_twigs.estimate(n_subscriptions, n_parts) + 30 * n_parts + 12 * n_subscriptions
