"""Twigs as tables hold them: equal ones share a row, and rows give back what was stored."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.encoder.layout import Twigs
from tests.engines.twigs import twig_cases as cases

NODE = (-1, 0, False, 3)  # parent, axis, negated, symbol


def stored(rows: list[cases.Row], keys: list[int]) -> stored_twigs.Stored:
    return stored_twigs.store(stored_twigs.distinct(cases.twigs(rows), np.array(keys)))


def test_equal_twigs_share_a_row_with_all_their_keys() -> None:
    other = [[(-1, 0, False, 4)]]
    table = stored([[[NODE]], other, [[NODE]], [[NODE], [NODE]], other], [5, 6, 7, 8, 5])
    assert table.key_start.tolist() == [0, 2, 4, 5]
    assert table.keys.tolist() == [5, 7, 6, 5, 8]


def test_different_twigs_with_the_same_hash_share_rows_with_their_equals_only() -> None:
    one = [[(-1, 1, False, 3), (0, 1, False, 1), (0, 0, True, 7)]]
    other = [[(-1, 1, False, 3), (-1, 0, False, 1), (0, 0, False, -1)]]
    rows = [one, other, one, other, other]
    assert len(set(stored_twigs._row_codes(cases.twigs(rows)).tolist())) == 1
    table = stored(rows, [1, 2, 3, 4, 5])
    assert table.key_start.tolist() == [0, 2, 5]
    assert table.keys.tolist() == [1, 3, 2, 4, 5]


@pytest.mark.parametrize(
    "other",
    [
        [[(-1, 1, False, 3)]],
        [[(-1, 0, True, 3)]],
        [[(-1, 0, False, -1)]],
        [[NODE, NODE]],
        [[NODE, (0, 0, False, 3)]],
        [[NODE], [NODE]],
        [[]],
        [],
    ],
)
def test_twigs_that_differ_anywhere_have_rows_of_their_own(other: cases.Row) -> None:
    table = stored([[[NODE]], other], [1, 2])
    assert table.key_start.tolist() == [0, 1, 2]
    assert not stored_twigs._is_same(
        cases.twigs([[[NODE]], other]), 0, 1
    )  # whatever their hashes are


def test_rows_that_are_put_together_are_the_same_node_by_node() -> None:
    rows = cases.random_rows(np.random.default_rng(4), 300, cases.Shape(n_names=2, n_nodes=2))
    twigs = cases.twigs(rows)
    first_of = [next(i for i, other in enumerate(rows) if other == row) for row in rows]
    assert len(set(first_of)) < len(rows)
    assert stored_twigs._first_equal(twigs).tolist() == first_of
    for left in range(40):
        for right in range(40):
            assert stored_twigs._is_same(twigs, left, right) == (rows[left] == rows[right])


def test_rows_give_back_their_twigs_in_any_order() -> None:
    rng = np.random.default_rng(5)
    rows = cases.random_rows(rng, 200, cases.Shape())
    table = stored(rows, list(range(200)))
    chosen = rng.integers(0, len(table.key_start) - 1, 50)
    expected = [rows[int(table.keys[table.key_start[row]])] for row in chosen]
    assert cases.rows_of(stored_twigs.subscriptions(table, chosen)) == expected


def test_some_rows_of_a_larger_batch_are_stored_without_the_others() -> None:
    rows = cases.random_rows(np.random.default_rng(6), 30, cases.Shape())
    twigs = cases.twigs(rows)
    part = twigs._replace(row_start=twigs.row_start[10:21])
    table = stored_twigs.store(stored_twigs.distinct(part, np.arange(10)))
    assert len(table.tag) == sum(len(tree) for row in rows[10:20] for tree in row)
    found = cases.rows_of(stored_twigs.subscriptions(table, np.arange(len(table.key_start) - 1)))
    assert [found[0], found[-1]] == [rows[10], rows[19]]


def test_no_twigs_make_an_empty_table() -> None:
    table = stored([], [])
    assert table.key_start.tolist() == [0]
    nothing = stored_twigs.subscriptions(table, np.empty(0, np.int64))
    assert isinstance(nothing, Twigs)
    assert nothing.n_rows == 0


def test_hits_become_the_keys_of_their_rows() -> None:
    table = stored([[[NODE]], [], [[NODE]]], [5, 6, 7])
    part = stored_twigs.finish(table, np.array([0, 2, 2, 3]), np.array([1, 0, 0], np.int32), 9)
    assert part.event_start.tolist() == [0, 3, 3, 5]
    assert part.keys.tolist() == [6, 5, 7, 5, 7]
    assert part.candidates == 9
