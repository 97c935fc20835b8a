"""Twigs packed into sets of lanes: nothing is lost, and little room is."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from matchyard.engines.twigs.algorithms.stacks import gpu_packing, stacks
from matchyard.engines.twigs.language.model import DOCUMENT
from matchyard.gpu.resident import kept
from tests.engines.twigs import twig_cases as cases

OPTIONS = stacks.Options()
MULTIPLE = 4


def compiled(rows: list[cases.Row]) -> stacks.Table:
    return stacks.compile(cases.twigs(rows), np.arange(len(rows)), None, OPTIONS)


def bush(n_nodes: int, symbol: int = 1) -> cases.Row:
    return [[(i - 1 if i % 3 else DOCUMENT, i % 2, i % 5 == 4, symbol) for i in range(n_nodes)]]


def lanes_of(mask: int) -> list[int]:
    return [lane for lane in range(gpu_packing.LANES) if mask >> lane & 1]


def trees_in(sets: gpu_packing.Sets) -> list[tuple[int, list[cases.Node]]]:
    """Each tree with its row, as its top nodes and their children lead to it."""
    found = []
    for place in np.flatnonzero(sets.row >= 0).tolist():
        base = place - place % gpu_packing.LANES
        open_lanes, nodes = lanes_of(int(sets.tops[place])), {}
        while open_lanes:
            lane = open_lanes.pop()
            kind = int(sets.personality[base + lane])
            prefix = kind % gpu_packing.LANES
            parent = DOCUMENT if prefix == gpu_packing.ROOM else base + prefix - place
            axis, is_negated = int(kind & 32 > 0), kind & 64 > 0
            nodes[base + lane - place] = (parent, axis, is_negated, int(sets.symbol[base + lane]))
            open_lanes += lanes_of(int(sets.children[base + lane]))
        found.append((int(sets.row[place]), [nodes[i] for i in range(len(nodes))]))
    return sorted(found)


@pytest.mark.parametrize("n_nodes", [1, 7, 45])
def test_every_tree_is_somewhere_as_it_was(n_nodes: int) -> None:
    shape = cases.Shape(n_nodes=n_nodes)
    rows = cases.rows_of(cases.twigs(cases.random_rows(np.random.default_rng(3), 200, shape)))
    table = compiled(rows)
    sets, wide, always = gpu_packing.pack(table, MULTIPLE)
    stored = cases.rows_of(stacks.subscriptions(table, np.arange(len(table.row_start) - 1)))
    trees = [(row, tree) for row, trees in enumerate(stored) for tree in trees]
    assert trees_in(sets) == sorted(t for t in trees if 0 < len(t[1]) <= gpu_packing.ROOM)
    assert wide.row.tolist() == [row for row, tree in trees if len(tree) > gpu_packing.ROOM]
    large = [node for _, tree in trees if len(tree) > gpu_packing.ROOM for node in tree]
    kinds = [32 * axis + 64 * is_negated for _, axis, is_negated, _ in large]
    assert wide.prefix.tolist() == [node[0] for node in large]
    assert wide.symbol.tolist() == [node[3] for node in large]
    assert wide.personality.tolist() == kinds
    is_always = np.unpackbits(always.view(np.uint8), bitorder="little")
    assert np.flatnonzero(is_always).tolist() == sorted({row for row, tree in trees if not tree})


@pytest.mark.parametrize(
    ("sizes", "n_sets"),
    [([10] * 3, 1), ([10] * 4, 2), ([31, 31, 1], 3), ([20, 5, 20, 6, 11, 11, 20, 11], 4)],
)
def test_large_trees_come_first_and_small_ones_where_room_is_left(
    sizes: list[int], n_sets: int
) -> None:
    table = compiled([bush(n_nodes, symbol) for symbol, n_nodes in enumerate(sizes, 1)])
    sets = gpu_packing.pack(table, 1).sets
    assert len(sets.symbol) == n_sets * gpu_packing.LANES
    assert (sets.symbol != gpu_packing.NONE).sum() == sum(sizes)
    assert (
        sets.symbol[gpu_packing.ROOM :: gpu_packing.LANES] == gpu_packing.NONE
    ).all()  # the documents


def test_sets_are_filled_up_to_a_multiple() -> None:
    assert (
        len(gpu_packing.pack(compiled([bush(31)]), MULTIPLE).sets.symbol) == 4 * gpu_packing.LANES
    )
    assert len(gpu_packing.pack(compiled([]), MULTIPLE).sets.symbol) == 0


def test_a_table_is_packed_once_and_goes_with_its_memory() -> None:
    held = len(kept)
    table = compiled([bush(5)])
    first = gpu_packing.packed(table, MULTIPLE)
    view = table._replace(row_start=table.row_start.view(), removed_keys=np.arange(3))
    assert gpu_packing.packed(view, MULTIPLE) is first
    del table, view
    gc.collect()
    other = compiled([bush(6)])
    assert gpu_packing.packed(other, MULTIPLE) is not first
    assert len(kept) == held + 1
