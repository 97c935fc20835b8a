"""lazy_dfa: the case of the paper, random cases against the definition, roomy and cramped."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from matchyard.engines.twigs.algorithms.lazy_dfa import lazy_dfa
from matchyard.engines.twigs.algorithms.lazy_dfa.cache import N_CLEARED, N_MASKS
from matchyard.engines.twigs.algorithms.stacks import stacks
from matchyard.errors import UsageError
from tests.engines.twigs import twig_cases as cases

OPTIONS = {
    "roomy": lazy_dfa.Options(),
    "all as bits": lazy_dfa.Options(small=0),
    "no cache": lazy_dfa.Options(cache_bytes=0),
    "little cache": lazy_dfa.Options(cache_bytes=3000, small=4),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_two_paths_that_part_at_different_elements_are_no_twig(options: lazy_dfa.Options) -> None:
    twigs, batch = cases.twigs(cases.FIGURE_4_TWIGS), cases.batch([cases.FIGURE_4])
    assert cases.matches_of(lazy_dfa, twigs, batch, options) == [[1, 2]]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("shape", cases.SHAPES)
def test_random_twigs_match_as_defined(shape: cases.Shape, options: lazy_dfa.Options) -> None:
    rng = np.random.default_rng(11)
    for _ in range(4):
        rows = cases.random_rows(rng, 100, shape)
        documents = [cases.random_document(rng, shape) for _ in range(12)]
        found = cases.matches_of(lazy_dfa, cases.twigs(rows), cases.batch(documents), options)
        assert found == cases.expected(rows, documents)


def test_what_a_workspace_knows_already_changes_nothing() -> None:
    rng, shape = np.random.default_rng(5), cases.SHAPES[0]
    rows = cases.random_rows(rng, 200, shape)
    batch = cases.batch([cases.random_document(rng, shape) for _ in range(20)])
    options = lazy_dfa.Options()
    table = cases.table_of(lazy_dfa, cases.twigs(rows), options)
    space = lazy_dfa.workspace(table, options)
    first, again = (lazy_dfa.match(table, batch, space, options) for _ in range(2))
    assert first.keys.tolist() == again.keys.tolist()
    assert first.candidates == again.candidates > 0


def test_a_cache_keeps_to_its_limit_and_forgets() -> None:
    """Every twig is of its own kind, and so is every document: nothing is met twice."""
    rng, shape = np.random.default_rng(7), cases.Shape(any_name=0.9, descendant=0.9, n_nodes=12)
    rows = cases.random_rows(rng, 60, shape)
    documents = [cases.random_document(rng, shape._replace(n_elements=60)) for _ in range(60)]
    options = lazy_dfa.Options(cache_bytes=1 << 17)  # less than a cache begins with
    table = cases.table_of(lazy_dfa, cases.twigs(rows), options)
    space = lazy_dfa.workspace(table, options)
    before = sum(array.nbytes for array in space.cache)
    part = lazy_dfa.match(table, cases.batch(documents), space, options)
    assert sum(array.nbytes for array in space.cache) == before
    assert space.cache.used[N_CLEARED] > 0
    start = part.event_start
    found = [sorted(part.keys[a:b].tolist()) for a, b in pairwise(start)]
    assert found == cases.expected(rows, documents)


def test_a_cache_begins_small_and_grows_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "matchyard.engines.twigs.algorithms.lazy_dfa.documents"
    monkeypatch.setattr(f"{module}._LEAST_BYTES", 1 << 15)
    monkeypatch.setattr(f"{module}._BYTES_EACH", 64)
    rng, shape = np.random.default_rng(7), cases.Shape(any_name=0.9, descendant=0.9, n_nodes=12)
    rows = cases.random_rows(rng, 60, shape)
    documents = [cases.random_document(rng, shape._replace(n_elements=60)) for _ in range(50)]
    options = lazy_dfa.Options(cache_bytes=1 << 23)
    table = cases.table_of(lazy_dfa, cases.twigs(rows), options)
    space = lazy_dfa.workspace(table, options)
    at_first = space.n_bytes
    part = lazy_dfa.match(table, cases.batch(documents), space, options)
    assert at_first < space.n_bytes <= options.cache_bytes
    found = [sorted(part.keys[a:b].tolist()) for a, b in pairwise(part.event_start)]
    assert found == cases.expected(rows, documents)


@pytest.mark.parametrize("shape", cases.SHAPES)
def test_states_that_are_met_often_get_masks(shape: cases.Shape) -> None:
    rng = np.random.default_rng(3)
    rows = cases.random_rows(rng, 300, shape)
    documents = [cases.random_document(rng, shape._replace(n_elements=40)) for _ in range(150)]
    options = lazy_dfa.Options()
    table = cases.table_of(lazy_dfa, cases.twigs(rows), options)
    space = lazy_dfa.workspace(table, options)
    part = lazy_dfa.match(table, cases.batch(documents), space, options)
    assert space.cache.used[N_MASKS] > 0
    found = [sorted(part.keys[a:b].tolist()) for a, b in pairwise(part.event_start)]
    assert found == cases.expected(rows, documents)


def test_masks_of_many_twigs_are_cut_into_blocks() -> None:
    rng, shape = np.random.default_rng(5), cases.Shape(n_names=3, n_nodes=9)
    subscriptions = cases.twigs(cases.random_rows(rng, 4000, shape))
    drawn = [cases.random_document(rng, shape._replace(n_elements=30)) for _ in range(250)]
    documents, options = cases.batch(drawn), lazy_dfa.Options()
    table = lazy_dfa.compile(subscriptions, np.arange(4000), None, options)  # type: ignore[arg-type]
    space = lazy_dfa.workspace(table, options)
    part = lazy_dfa.match(table, documents, space, options)
    masks = space.cache.masks
    with_masks = [int(masks[at - 1]) for at in space.cache.state_masks if at > 0]
    assert max(with_masks) > 2  # blocks
    found = [sorted(part.keys[a:b].tolist()) for a, b in pairwise(part.event_start)]
    assert found == cases.matches_of(stacks, subscriptions, documents, stacks.Options())


def test_documents_may_have_tags_that_are_newer_than_the_table() -> None:
    subscriptions = cases.twigs([[[(-1, 0, False, 1)]], [[(-1, 1, False, -1)]]])
    document = cases.element(7, cases.Element(9, is_leaf=True))
    options = lazy_dfa.Options()
    assert cases.matches_of(lazy_dfa, subscriptions, cases.batch([document]), options) == [[1]]


@pytest.mark.parametrize("name", lazy_dfa.Options._fields)
def test_options_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        lazy_dfa.check(lazy_dfa.Options()._replace(**{name: -1}))
