"""Work counters are exact: an algorithm that looks at more sets than before fails here."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.engines.tags.workload import generate
from tests.cases import CASES, Case, build

# Candidates of 200 events against 3 000 subscriptions, seed 1. A number that falls is an
# improvement to be written down here; one that rises is a regression.
PINNED = {
    ("rarest", "peers"): 528,
    ("rarest", "twitter"): 207,
    ("rarest", "skew"): 3_717,
    ("tagmatch", "peers"): 161_266,
    ("tagmatch", "twitter"): 89_007,
    ("tagmatch", "skew"): 256_393,
    ("tagmatch-frequent", "peers"): 161_636,
    ("tagmatch-frequent", "twitter"): 89_007,
    ("tagmatch-frequent", "skew"): 270_945,
    ("tagmatch-prefix", "peers"): 152_639,
    ("tagmatch-prefix", "twitter"): 89_928,
    ("tagmatch-prefix", "skew"): 218_644,
    ("prefix_tree", "peers"): 345_245,
    ("prefix_tree", "twitter"): 246_196,
    ("prefix_tree", "skew"): 161_973,
    ("scan", "peers"): 590_600,
    ("scan", "twitter"): 317_400,
    ("scan", "skew"): 600_000,
}
MATCHES = {"peers": 1_260, "twitter": 610, "skew": 202}


@pytest.mark.parametrize(("algorithm", "name"), PINNED)
def test_candidates_are_as_many_as_ever(algorithm: str, name: str) -> None:
    work = generate(name, size=3000, seed=1)
    algorithm, _, pivot = algorithm.partition("-")
    index = build(*work.subscriptions(0, 3000), algorithm, {"pivot": pivot} if pivot else {})
    asked = work.events(200)
    found = index.match(asked).work
    assert found.candidates == PINNED[f"{algorithm}-{pivot}" if pivot else algorithm, name]
    assert found.matches == MATCHES[name]
    assert index.match(asked).work == found  # whatever the first call left in the workspace


SPLIT = {1: 1_489, 4: 3_429}  # the same on `skew`, by the size of a leaf


@pytest.mark.parametrize("leaf", SPLIT)
def test_split_postings_skip_the_runs_that_no_tag_leads_to(leaf: int) -> None:
    work = generate("skew", size=3000, seed=1)
    index = build(*work.subscriptions(0, 3000), "rarest", {"leaf": leaf})
    assert index.match(work.events(200)).work == (SPLIT[leaf], MATCHES["skew"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_candidates_do_not_depend_on_how_events_are_cut(case: Case, small_chunks: int) -> None:
    work = generate("skew", size=300, seed=2)
    index = build(*work.subscriptions(0, 300), *case[:2])
    together, alone = (
        index.match(work.events(20)),
        [index.match(work.events(1, at)) for at in range(20)],
    )
    assert together.work.candidates == sum(found.work.candidates for found in alone)


def test_skew_makes_no_event_look_at_a_large_part_of_the_index() -> None:
    work = generate("skew", size=50_000, seed=1)
    index = build(*work.subscriptions(0, 50_000))
    each = [index.match(work.events(1, at)).work for at in range(300)]
    assert all(found.candidates <= 20 * found.matches + 10_000 for found in each)
    assert np.mean([found.candidates for found in each]) < 0.01 * 50_000


def test_a_tag_that_all_share_does_not_make_matching_linear() -> None:
    """The worst for an inverted index: few tags, so that the rarest has a long posting."""
    looked_at = []
    for size in (4_000, 32_000):
        random = np.random.default_rng(4)
        rows = [["x", *(f"t{n}" for n in random.integers(0, 150, 5))] for _ in range(size)]
        asked = [["x", *(f"t{n}" for n in random.integers(0, 150, 8))] for _ in range(100)]
        looked_at.append(build(rows).match(asked).work.candidates / 100)
    assert looked_at[1] < 0.03 * 32_000
    assert looked_at[1] < 5 * looked_at[0]
