"""stacks on a card against stacks on the CPU: words of levels and sets of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from matchyard.engines.twigs.algorithms.stacks import stacks
from matchyard.engines.twigs.encoder.layout import ANY, Batch
from matchyard.engines.twigs.language.model import DOCUMENT
from matchyard.kernels.csr import hash_set
from matchyard.matches import Part
from tests.engines.twigs import twig_cases as cases

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

from matchyard.engines.twigs.algorithms.stacks import gpu as stacks_gpu  # noqa: E402

OPTIONS = stacks.Options()
A, B, TEST = 1, 2, 5


def compiled(rows: Sequence[cases.Row]) -> stacks.Table:
    return stacks.compile(cases.twigs(rows), np.arange(len(rows)), None, OPTIONS)


def chain(n_nodes: int, symbol: int = A, axis: int = 0, last: int = A) -> list[cases.Node]:
    """/a/a/a, or with other symbols and axes."""
    return [(i - 1, axis, False, last if i == n_nodes - 1 else symbol) for i in range(n_nodes)]


def joined(documents: Sequence[Sequence[int]]) -> Batch:
    """Documents by their signals."""
    depths = [max(np.cumsum([(e >= 0) - (e == -1) for e in signals])) for signals in documents]
    return Batch(
        np.cumsum([0, *map(len, documents)]),
        np.array([signal for signals in documents for signal in signals], np.int32),
        np.array(depths, np.int32),
    )


def check(table: stacks.Table, batch: Batch, workspace: Any = None) -> Part:
    """Check that the card finds the keys of the CPU in the same order, with the same candidates."""
    want = stacks.match(table, batch, None, OPTIONS)
    workspace = workspace or stacks_gpu.workspace(table, OPTIONS)
    found = stacks_gpu.match(table, batch, workspace, OPTIONS)
    assert found.event_start.tolist() == want.event_start.tolist()
    assert found.keys.tolist() == want.keys.tolist()
    assert found.candidates == want.candidates
    return found


@pytest.mark.parametrize("shape", cases.SHAPES)
def test_random_twigs_match_as_on_the_cpu(shape: cases.Shape) -> None:
    rng = np.random.default_rng(12)
    table = compiled(cases.random_rows(rng, 300, shape))
    found = check(table, cases.batch([cases.random_document(rng, shape) for _ in range(30)]))
    assert len(found.keys)


def test_documents_are_matched_at_every_depth() -> None:
    depths = [1, 2, 30, 31, 32, 33, 62, 63, 64, 65, 100]
    rows = [[chain(n)] for n in (1, 2, 30, 31)] + [[chain(3, axis=1)], [chain(31, ANY, 1, B)]]
    rows += [[[*chain(2, axis=1), (1, 0, False, TEST)]], [[(DOCUMENT, 1, True, TEST)]]]
    documents = [[A] * n + [-2 - TEST] + [-1] * n for n in depths]
    documents += [[A] * (n - 1) + [B] + [-1] * n for n in depths]
    found = check(compiled(rows), joined(documents))
    by_depth = np.diff(found.event_start)[: len(depths)]
    assert by_depth.tolist() == [1, 3, 5, 6, 6, 6, 6, 6, 6, 6, 6]


@pytest.mark.parametrize("n_children", [510, 511, 512, 1023, 3000])
def test_documents_may_have_more_signals_than_are_staged(n_children: int) -> None:
    signals = [A, *[B, -1] * (n_children - 1), B, -2 - TEST, -1, -1]
    has_test: cases.Node = (1, 0, False, TEST)
    rows: list[cases.Row] = [[[*chain(2, last=B), has_test]], [chain(2)], [chain(2, last=B)]]
    found = check(compiled(rows), joined([signals, [A, -1]]))
    assert found.keys.tolist() == [0, 2]


@pytest.mark.parametrize("depth", [20, 40])
def test_trees_may_have_more_nodes_than_a_warp_has_lanes(depth: int) -> None:
    rng = np.random.default_rng(13)
    shape = cases.Shape(n_nodes=90, n_trees=2, any_name=0.6, descendant=0.7, negated=0.05)
    bushes: list[cases.Row] = [
        [[(DOCUMENT, 0, False, A), *[(0, 1, False, symbol) for symbol in ([A, B] * n)[:n]]]]
        for n in (29, 30, 31, 32, 200)
    ]
    rows = [*bushes, [chain(35, axis=1)], *cases.random_rows(rng, 40, shape)]
    deep = [*[A] * depth, B, *[-1] * (depth + 1)]
    found = check(compiled(rows), joined([deep, [A, A, -1, -1], [B, -1]]))
    assert found.keys.tolist()[:5] == [0, 1, 2, 3, 4]
    documents = [cases.random_document(rng, shape._replace(n_elements=60)) for _ in range(12)]
    check(compiled(rows), cases.batch(documents))


def test_a_document_may_satisfy_more_rows_than_a_warp_writes_at_a_time() -> None:
    symbols = range(10, 1200)
    signals = [A, *(signal for symbol in symbols for signal in (symbol, -1)), -1]
    rows: list[cases.Row] = [[[(DOCUMENT, 1, False, symbol)]] for symbol in symbols]
    found = check(compiled(rows), joined([signals, [A, 700, -1, -1]]))
    assert found.event_start.tolist() == [0, len(symbols), len(symbols) + 1]


def test_launches_may_be_small(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(14)
    shape = cases.Shape(n_nodes=40)
    table = compiled(cases.random_rows(rng, 100, shape))
    batch = cases.batch([cases.random_document(rng, shape) for _ in range(9)])
    monkeypatch.setattr(stacks_gpu, "_HIT_WORDS", 2 * -(-len(table.row_start) // 32))
    monkeypatch.setattr(stacks_gpu, "_WIDE_NODES", 1)
    check(table, batch)
    monkeypatch.setattr(stacks_gpu, "_HIT_WORDS", 1)
    check(table, batch)


def test_a_workspace_grows_and_is_used_again() -> None:
    rng = np.random.default_rng(15)
    table = compiled(cases.random_rows(rng, 60, cases.Shape()))
    workspace = stacks_gpu.workspace(table, OPTIONS)
    for n_documents in (1, 0, 30, 3, 60, 2):
        documents = [cases.random_document(rng, cases.Shape()) for _ in range(n_documents)]
        check(table, cases.batch(documents), workspace)


@pytest.mark.parametrize("rows", [[], [[]], [[[]]], [[], [[]], [[], chain(1)]]])
def test_there_may_be_nothing_to_look_for(rows: list[cases.Row]) -> None:
    check(compiled(rows), joined([[A, -1], [B, -1]]))


def test_subscriptions_that_were_removed_are_not_found() -> None:
    rng = np.random.default_rng(16)
    table = compiled(cases.random_rows(rng, 60, cases.Shape()))
    batch = cases.batch([cases.random_document(rng, cases.Shape()) for _ in range(20)])
    all_keys = check(table, batch).keys
    gone = np.unique(all_keys)[::2]
    left = check(table._replace(removed_keys=hash_set(gone)), batch).keys
    assert left.tolist() == all_keys[~np.isin(all_keys, gone)].tolist()


def test_threads_share_what_is_on_the_card() -> None:
    rng = np.random.default_rng(17)
    table = compiled(cases.random_rows(rng, 120, cases.Shape()))
    documents = [cases.random_document(rng, cases.Shape()) for _ in range(40)]
    batches = [cases.batch(documents[i : i + 5]) for i in range(0, 40, 5)]
    with ThreadPoolExecutor(4) as pool:
        workspaces = list(pool.map(lambda _: stacks_gpu.workspace(table, OPTIONS), batches))
        list(pool.map(check, [table] * len(batches), batches, workspaces))
    assert all(space.sets[0] is workspaces[0].sets[0] for space in workspaces)
