"""Users, publishers and tweets behind `twitter` agree with the interests that are generated."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.tags.workload.people import publisher_of

SIZE = 20_000


@pytest.fixture(scope="module")
def work():
    return my.workload("tags", "twitter", SIZE, seed=3)


def test_users_have_the_interests_that_are_generated(work) -> None:
    users = work.users()
    _, keys = work.subscriptions(0, SIZE)
    counted = Counter(keys.tolist())
    assert users["user"].to_pylist() == list(range(SIZE // 3))
    assert users["interests"].to_pylist() == [counted[user] for user in range(SIZE // 3)]


def test_interests_are_in_a_language_of_their_user(work) -> None:
    tags, keys = work.subscriptions(0, SIZE)
    users = work.users().to_pylist()
    for row, key in zip(tags.to_pylist()[:3000], keys.tolist()):
        language = row[0][:2] if "_" in row[0] else "en"
        assert language in (users[key]["first_language"], users[key]["second_language"])


def test_three_users_in_five_have_a_second_language(work) -> None:
    users = work.users()
    assert 1 - users["second_language"].null_count / len(users) == pytest.approx(0.6, abs=0.02)
    english = Counter(users["first_language"].to_pylist())["en"] / len(users)
    assert english == pytest.approx(0.51, abs=0.02)


def test_publishers_have_the_followers_that_are_generated(work) -> None:
    publishers = work.publishers()
    tags, _ = work.subscriptions(0, SIZE)
    counted = Counter(row[-1] for row in tags.to_pylist() if row[-1].startswith("@"))
    for one in publishers.to_pylist():
        if one["frequent"]:
            assert one["followers"] == counted[one["tag"]]
    assert publishers["followers"].to_numpy().sum() == SIZE
    assert publishers["tweets"].to_numpy().sum() == SIZE // 8


def test_frequent_publishers_write_most(work) -> None:
    whole = work.publishers(0, 800)  # the last group may be incomplete
    tweets, frequent = whole["tweets"].to_numpy(), whole["frequent"].to_numpy()
    assert tweets[frequent].min() > tweets[~frequent].max()
    assert frequent.mean() == pytest.approx(0.3)


def test_interests_are_tweets_in_another_language(work) -> None:
    written = {tuple(row) for row in work.tweets()["tags"].to_pylist()}
    tags, _ = work.subscriptions(0, 2000)
    for row in tags.to_pylist():
        hashtags = (tag.rpartition("_")[2] for tag in row if not tag.startswith("@"))
        assert tuple(hashtags) in written


def test_people_can_be_read_in_pieces(work) -> None:
    for kind in ("users", "publishers", "tweets"):
        read = getattr(work, kind)
        whole = read()
        assert len(whole) == getattr(work, f"n_{kind}")
        assert read(17, 40).to_pylist() == whole.to_pylist()[17:40]
        assert len(read(5, 10**9)) == len(whole) - 5
    assert work.tweets()["publisher"].to_pylist() == [
        publisher_of(tweet) for tweet in range(SIZE // 8)
    ]


def test_a_tiny_workload_has_one_user_and_one_tweet() -> None:
    work = my.workload("tags", "twitter", 2, seed=1)
    assert (len(work.users()), len(work.tweets())) == (1, 1)
    assert np.all(work.users()["interests"].to_numpy() == 2)


@pytest.mark.parametrize("kind", ["users", "publishers", "tweets"])
def test_workloads_without_people_say_so(kind: str) -> None:
    with pytest.raises(my.UsageError, match="has no users"):
        getattr(my.workload("tags", "peers", 100), kind)()
