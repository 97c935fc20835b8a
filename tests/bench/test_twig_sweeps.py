"""Twigs while one thing varies, and what the paper claims about it."""

import pytest
from benchmarks.shared import twig_claims, twig_sweeps
from benchmarks.shared.twig_sweeps import Card, Copies, filled, measure, side_by_side

import matchyard as my

pytestmark = pytest.mark.usefixtures("quick")
PLACE = Card(twigs=30, n_documents=5, document_bytes=2_000)


def test_copies_share_the_documents_and_find_the_same():
    found = measure(PLACE, ["lazy_dfa", "yfilter"], {"yfilter": [1, 2]})
    assert list(found) == [("lazy_dfa", 1), ("yfilter", 1), ("yfilter", 2)]
    assert len({one.n_matches for one in found.values()}) == 1
    assert all(one.seconds > 0 for one in found.values())
    documents = PLACE.source().events(5, start=5).to_pylist()
    assert found["yfilter", 2].n_bytes == sum(map(len, documents))
    assert found["yfilter", 2].n_matches == filled(PLACE, "stacks")[0].match(documents).work.matches


def test_there_are_no_more_copies_than_documents():
    index, source = filled(PLACE, "stacks")
    assert Copies(index, source, 1, 4).copies == 1


def test_every_round_has_other_documents(monkeypatch):
    index, source = filled(PLACE, "stacks")
    monkeypatch.setattr(twig_sweeps.steps, "PASSES", 3)
    job, starts, events = Copies(index, source, 2, 1), [], source.events
    source.events = lambda number, start: starts.append(start) or events(number, start)
    side_by_side([job])
    assert starts == [0, 2, 4, 6]


def test_different_numbers_of_matches_are_an_error(monkeypatch):
    usual = twig_sweeps.filled

    def lossy(place, algorithm, device):
        index, source = usual(place, algorithm, device)
        if algorithm == "stacks":
            for key in range(25):
                index.remove(key)
            index.consolidate()
        return index, source

    monkeypatch.setattr(twig_sweeps, "filled", lossy)
    with pytest.raises(my.MatchyardError, match="different numbers of matches"):
        measure(PLACE, ["lazy_dfa", "stacks"])


def panels(*values):
    return {str(number): {"stacks": list(some)} for number, some in enumerate(values)}


def test_halving_is_counted_per_doubling():
    shares = [0.25, 0.5, 1.0]
    assert twig_claims.halves(panels([8, 8, 4]), "stacks", shares).holds
    assert not twig_claims.halves(panels([8, 4, 3.5]), "stacks", shares).holds
    assert not twig_claims.has_no_break(panels([8, 8, 4]), "stacks", shares).holds
    assert twig_claims.has_no_break(panels([32, 8]), "stacks", [0.25, 1.0]).holds


def test_longer_twigs_are_slower_in_every_step():
    assert twig_claims.longer_is_slower(panels([9, 5], [9, 4], [9, 3]), "stacks").holds
    assert not twig_claims.longer_is_slower(panels([9, 5], [9, 6], [9, 3]), "stacks").holds


def test_speedups_of_batches_are_judged_one_by_one():
    one, two = "stacks / yfilter", "stacks / 2 yfilters"
    found = {"a": {one: [8.0, 4.0], two: [4.0, 2.0]}, "b": {one: [7.5, 3.8], two: [3.7, 1.9]}}
    assert all(claim.holds for claim in twig_claims.of_batches(found, [1, 2]))
    assert twig_claims.speedup_halves(found, [5, 10], "nodes").holds
    found["b"] = {one: [12.0, 12.0], two: [1.0, 1.0]}
    assert [claim.holds for claim in twig_claims.of_batches(found, [1, 2])] == [False, True, True]
    assert not twig_claims.speedup_halves(found, [5, 10], "nodes").holds
