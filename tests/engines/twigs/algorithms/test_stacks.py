"""stacks: the case of the paper, random cases against the definition, and the work done."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.engines.twigs.algorithms.stacks import stacks
from tests.engines.twigs import twig_cases as cases

OPTIONS = stacks.Options()


def test_two_paths_that_part_at_different_elements_are_no_twig() -> None:
    found = cases.matches_of(
        stacks, cases.twigs(cases.FIGURE_4_TWIGS), cases.batch([cases.FIGURE_4]), OPTIONS
    )
    assert found == [[1, 2]]


@pytest.mark.parametrize("shape", cases.SHAPES)
def test_random_twigs_match_as_defined(shape: cases.Shape) -> None:
    rng = np.random.default_rng(11)
    for _ in range(4):
        rows = cases.random_rows(rng, 100, shape)
        documents = [cases.random_document(rng, shape) for _ in range(12)]
        found = cases.matches_of(stacks, cases.twigs(rows), cases.batch(documents), OPTIONS)
        assert found == cases.expected(rows, documents)


def test_twigs_and_documents_may_be_large() -> None:
    n_nodes, depth = 1500, 1600  # more nodes than threads of a block [Twigs §4.3]
    chain: list[cases.Node] = [(i - 1, 0, False, 200 + i) for i in range(n_nodes)]
    fitting, missing = chain, [*chain[:-1], (n_nodes - 2, 0, False, 7)]
    signals = [*range(200, 200 + depth), *[-1] * depth]
    batch = cases.Batch(
        np.array([0, len(signals)]), np.array(signals, np.int32), np.array([depth], np.int32)
    )
    subscriptions = cases.twigs([[fitting], [missing]])
    assert cases.matches_of(stacks, subscriptions, batch, OPTIONS) == [[0]]


def test_documents_may_have_tags_that_are_newer_than_the_table() -> None:
    subscriptions = cases.twigs([[[(-1, 0, False, 1)]], [[(-1, 1, False, -1)]]])
    document = cases.element(7, cases.Element(9, is_leaf=True))
    assert cases.matches_of(stacks, subscriptions, cases.batch([document]), OPTIONS) == [[1]]


def test_every_event_looks_at_every_column() -> None:
    subscriptions = cases.twigs(cases.FIGURE_4_TWIGS)
    table = cases.table_of(stacks, subscriptions, OPTIONS)
    part = stacks.match(table, cases.batch([cases.FIGURE_4]), None, OPTIONS)
    assert part.candidates == 2 * 6 * (3 + 4 + 3 + 3)  # 6 elements; a column per tree and node
