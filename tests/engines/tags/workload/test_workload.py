"""Workloads: the same rows however they are cut, and the shape that the papers describe."""

from __future__ import annotations

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.tags.workload import MODELS, generate
from matchyard.engines.tags.workload.workload import LANGUAGES
from tests.cases import build


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_the_same_in_any_chunking(name: str) -> None:
    work = generate(name, size=1000, seed=5)
    tags, keys = work.subscriptions(0, 1000)
    pieces = list(generate(name, size=1000, seed=5).chunks(333))
    assert [row for piece, _ in pieces for row in piece.to_pylist()] == tags.to_pylist()
    assert np.concatenate([some for _, some in pieces]).tolist() == keys.tolist()
    assert work.events(40, start=17).to_pylist() == work.events(100).to_pylist()[17:57]


@pytest.mark.parametrize("name", MODELS)
def test_seeds_make_different_rows_and_events(name: str) -> None:
    one, two = (generate(name, size=1000, seed=seed) for seed in (1, 2))
    assert one.subscriptions(0, 50)[0] != two.subscriptions(0, 50)[0]
    assert one.events(50) != two.events(50)


@pytest.mark.parametrize("name", [name for name in MODELS if not MODELS[name].n_questions])
def test_every_event_holds_a_stored_set_and_some_more(name: str) -> None:
    work = generate(name, size=2000, seed=3)
    tags, keys = work.subscriptions(0, 2000)
    asked = work.events(200)
    assert all(build(tags, keys).match(asked))
    stored = {frozenset(row) for row in tags.to_pylist()}
    assert all(frozenset(event) not in stored for event in asked.to_pylist())
    assert all(len(set(event)) == len(event) for event in asked.to_pylist())


def test_a_dense_event_has_the_tags_of_two_questions_and_matches_much() -> None:
    work = generate("dense", size=50_000, seed=1)
    tags, keys = work.subscriptions(0, 50_000)
    assert set(np.diff(tags.offsets.to_numpy())) == {3, 4, 5}
    asked = work.events(2_000)
    lengths = np.diff(asked.offsets.to_numpy())
    assert (lengths.min(), lengths.max() <= 10) == (1, True)
    assert lengths.mean() == pytest.approx(3.7, abs=0.1)  # 2.2 each, and some tags are in both
    matches = build(tags, keys).match(asked)
    assert matches.total / 2_000 / 50_000 == pytest.approx(0.012, abs=0.002)


def test_twitter_rows_have_five_tags_and_half_of_them_a_publisher() -> None:
    rows = generate("twitter", size=40_000, seed=1).rows(0, 40_000)
    lengths = np.diff(rows.start)
    assert lengths.mean() == pytest.approx(5, abs=0.1)
    assert (lengths.min(), lengths.max() <= 12) == (1, True)
    has_publisher = np.add.reduceat(rows.names < 0, rows.start[:-1])
    assert has_publisher.max() == 1
    assert has_publisher.mean() == pytest.approx(0.5, abs=0.02)


def test_two_users_in_five_speak_one_language_and_three_a_second() -> None:
    work = generate("twitter", size=300_000, seed=1)
    rows = work.rows(0, 300_000)
    first_name = rows.names[rows.start[:-1]]  # a hashtag: publishers come last
    language = first_name // work.model.n_hashtags
    assert 0 <= language.min() <= language.max() < len(LANGUAGES)
    heavy = [user for user in range(1000) if (rows.keys == user).sum() >= 12]
    alone = np.mean([len(set(language[rows.keys == user])) == 1 for user in heavy])
    same_twice = 0.187  # the chance that a second language is the first one again
    assert len(heavy) > 800
    assert alone == pytest.approx(0.4 + 0.6 * same_twice, abs=0.05)
    english = np.mean([np.mean(language[rows.keys == user] == 0) for user in heavy])
    assert english == pytest.approx(0.51 * 0.7 + 0.34 * 0.3, abs=0.05)


@pytest.mark.parametrize(
    ("name", "fewest", "most", "n_tags"), [("peers", 1, 9, 5.0), ("skew", 5, 5, 5.0)]
)
def test_the_other_workloads_have_the_lengths_of_their_table(
    name: str, fewest: int, most: int, n_tags: float
) -> None:
    lengths = np.diff(generate(name, size=20_000, seed=1).rows(0, 20_000).start)
    assert (lengths.min(), lengths.max()) == (fewest, most)
    assert lengths.mean() == pytest.approx(n_tags, abs=0.1)


# Matches per event at 100 000 subscriptions. Beyond the first, they grow in proportion to the size.
@pytest.mark.parametrize(
    ("name", "fewest", "most"),
    [("twitter", 1, 6), ("twitter-popular", 1.5, 8), ("peers", 90, 260), ("skew", 1.1, 1.4)],
)
def test_events_have_as_many_matches_as_the_table_says(
    name: str, fewest: float, most: float
) -> None:
    work = generate(name, size=100_000, seed=1)
    found = build(*work.subscriptions(0, 100_000)).match(work.events(1000))
    assert fewest < found.work.matches / 1000 < most


def test_extra_tags_can_be_set() -> None:
    work = generate("skew", size=100, seed=1, parameters={"extra_tags": 7})
    assert {len(event) for event in work.events(50).to_pylist()} == {12}


@pytest.mark.parametrize(("name", "size"), [("tweets", 10), ("twitter", 0)])
def test_a_workload_that_does_not_exist_is_refused(name: str, size: int) -> None:
    with pytest.raises(my.UsageError, match=r"no tags workload|at least one"):
        generate(name, size)
