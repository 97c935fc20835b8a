"""yfilter: the case of the paper, random cases against the definition, sections, and its work."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.algorithms.yfilter import path_automaton, yfilter
from matchyard.errors import UsageError
from tests.engines.twigs import twig_cases as cases

OPTIONS = yfilter.Options()


@pytest.mark.parametrize("section", [1, 2, 240])
def test_two_paths_that_part_at_different_elements_are_no_twig(section: int) -> None:
    found = cases.matches_of(
        yfilter,
        cases.twigs(cases.FIGURE_4_TWIGS),
        cases.batch([cases.FIGURE_4]),
        yfilter.Options(section),
    )
    assert found == [[1, 2]]


@pytest.mark.parametrize("shape", cases.SHAPES)
@pytest.mark.parametrize("section", [1, 2, 5, 13, 240])
def test_random_twigs_match_as_defined(shape: cases.Shape, section: int) -> None:
    rng = np.random.default_rng(section)
    rows = cases.random_rows(rng, 150, shape)
    documents = [cases.random_document(rng, shape) for _ in range(15)]
    found = cases.matches_of(
        yfilter, cases.twigs(rows), cases.batch(documents), yfilter.Options(section)
    )
    assert found == cases.expected(rows, documents)


@pytest.mark.parametrize("section", [1, 60, 1000])
def test_sections_of_several_words_match_as_defined(section: int) -> None:
    shape = cases.Shape(n_elements=200, deeper=0.8, n_names=6)
    rng = np.random.default_rng(section)
    rows = cases.random_rows(rng, 60, shape)
    documents = [cases.random_document(rng, shape) for _ in range(4)]
    assert max(cases.batch(documents).depth) > 64
    found = cases.matches_of(
        yfilter, cases.twigs(rows), cases.batch(documents), yfilter.Options(section)
    )
    assert found == cases.expected(rows, documents)


def test_a_workspace_serves_batches_of_any_size_one_after_the_other() -> None:
    rng = np.random.default_rng(8)
    rows, options = cases.random_rows(rng, 100, cases.Shape()), yfilter.Options(section=30)
    table = cases.table_of(yfilter, cases.twigs(rows), options)
    workspace = yfilter.workspace(table, options)
    for n_elements in (3, 20, 90, 4, 150, 10):
        shape = cases.Shape(n_elements=n_elements, deeper=0.7)
        documents = [cases.random_document(rng, shape) for _ in range(4)]
        part = yfilter.match(table, cases.batch(documents), workspace, options)
        found = [sorted(part.keys[a:b].tolist()) for a, b in pairwise(part.event_start)]
        assert found == cases.expected(rows, documents)


def test_equal_prefixes_are_the_same_states() -> None:
    stored = stored_twigs.store(
        stored_twigs.distinct(cases.twigs(cases.FIGURE_4_TWIGS), np.arange(3))
    )
    paths = path_automaton.build(stored)
    assert paths.state_of.tolist() == [1, 2, 3, 4, 1, 2, 3, 1, 2, 4]
    assert len(paths.state_kind) == 5


def test_only_twigs_all_of_whose_paths_were_found_are_joined() -> None:
    table = cases.table_of(yfilter, cases.twigs(cases.FIGURE_4_TWIGS), OPTIONS)
    document = cases.element(cases.A, cases.element(cases.C, cases.element(cases.E)))
    workspace = yfilter.workspace(table, OPTIONS)
    part = yfilter.match(table, cases.batch([document]), workspace, OPTIONS)
    assert part.keys.tolist() == [2]
    assert part.candidates == 3  # the nodes of the third alone


def test_documents_may_have_tags_that_are_newer_than_the_table() -> None:
    subscriptions = cases.twigs([[[(-1, 0, False, 1)]], [[(-1, 1, False, -1)]]])
    document = cases.element(7, cases.Element(9, is_leaf=True))
    assert cases.matches_of(yfilter, subscriptions, cases.batch([document]), OPTIONS) == [[1]]


def test_a_section_without_elements_is_refused() -> None:
    with pytest.raises(UsageError, match='"section" must be at least 1, not 0'):
        yfilter.check(yfilter.Options(section=0))
