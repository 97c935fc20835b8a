"""The thesis' applications: shape of the rows, tags that belong together, and the rows themselves."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.tags.workload import generate
from matchyard.engines.tags.workload.applications import APPLICATIONS, MIXTURE
from matchyard.engines.tags.workload.descriptors import LANGUAGES, SPEAKERS
from tests.cases import build

NAMES = [*APPLICATIONS, MIXTURE]
COPIES = 12


def in_english(tag: str) -> str:
    """A tag without the prefixes of synonyms and languages."""
    return tag.rpartition("_")[2]


def descriptors(name: str, size: int = 60_000) -> list[list[str]]:
    """One copy of each descriptor, in English and without synonyms."""
    tags, _ = generate(name, size, seed=1).subscriptions(0, size)
    return [[in_english(tag) for tag in row] for row in tags.to_pylist()[::COPIES]]


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_applications_are_the_same_in_any_chunking(name: str) -> None:
    work = generate(name, size=1000, seed=5)
    tags, keys = work.subscriptions(0, 1000)
    pieces = list(generate(name, size=1000, seed=5).chunks(333))
    assert [row for piece, _ in pieces for row in piece.to_pylist()] == tags.to_pylist()
    assert np.concatenate([some for _, some in pieces]).tolist() == keys.tolist()
    assert work.events(40, start=17).to_pylist() == work.events(100).to_pylist()[17:57]
    assert [len(part) for part in work.subscriptions(7, 7)] == [0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_seeds_make_different_applications(name: str) -> None:
    one, two = (generate(name, size=1000, seed=seed) for seed in (1, 2))
    assert one.subscriptions(0, 50)[0] != two.subscriptions(0, 50)[0]
    assert one.events(50) != two.events(50)


@pytest.mark.parametrize("name", NAMES)
def test_every_event_of_an_application_holds_a_stored_set_and_two_to_four_more(name: str) -> None:
    work = generate(name, size=2000, seed=3)
    tags, keys = work.subscriptions(0, 2000)
    asked = work.events(200)
    assert all(build(tags, keys).match(asked))
    stored = {frozenset(row) for row in tags.to_pylist()}
    for event in asked.to_pylist():
        assert len(set(event)) == len(event)
        added = [n for n in (2, 3, 4) if frozenset(event[: len(event) - n]) in stored]
        assert added, event


@pytest.mark.parametrize(
    ("name", "fewest", "most", "mean"),
    [
        ("active-web", 1, 15, 3.2),
        ("blog-posts", 5, 10, 7.7),  # five, and 0.8 + 0.64 + … of the other five
        ("video", 1, 15, 6.4),
        ("short-messages", 1, 15, 2.2),
        ("bittorrent", 1, 15, 2.9),
    ],
)
def test_applications_have_as_many_tags_as_their_traces(
    name: str, fewest: int, most: int, mean: float
) -> None:
    lengths = [len(row) for row in descriptors(name)]
    assert (min(lengths), max(lengths) <= most) == (fewest, True)
    assert np.mean(lengths) == pytest.approx(mean, abs=0.3)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_descriptors_share_tags_beyond_chance(name: str) -> None:
    rows = [row[:5] for row in descriptors(name, 120_000) if len(row) > 1]
    together = Counter(pair for row in rows for pair in combinations(sorted(set(row)), 2))
    flat = np.array([tag for row in rows for tag in row])
    np.random.default_rng(1).shuffle(flat)
    ends = np.cumsum([len(row) for row in rows])[:-1]
    apart = Counter(
        pair for row in np.split(flat, ends) for pair in combinations(sorted(set(row.tolist())), 2)
    )

    def repeated(pairs: Counter[tuple[str, str]]) -> float:
        return sum(count for count in pairs.values() if count > 2) / pairs.total()

    assert repeated(together) > 1.5 * repeated(apart)


def test_blog_posts_are_about_400_topics_of_ten_words() -> None:
    rows = descriptors("blog-posts", 120_000)
    topics = {tuple(row[:5]) for row in rows}
    assert 350 < len(topics) <= 400
    words: dict[tuple[str, ...], set[str]] = {topic: set() for topic in topics}
    for row in rows:
        words[tuple(row[:5])].update(row)
    assert {len(some) for some in words.values()} <= set(range(5, 11))
    assert max(len(some) for some in words.values()) == 10


def test_messages_about_one_link_have_the_same_hashtags_and_bookmarks_of_one_site_do_not() -> None:
    links = Counter(tuple(row) for row in descriptors("short-messages") if len(row) > 2)
    sites = Counter(tuple(row) for row in descriptors("active-web") if len(row) > 2)
    assert len(links) < 0.7 * links.total()
    assert len(sites) > 0.95 * sites.total()


def test_languages_come_in_proportion_to_their_speakers() -> None:
    tags, keys = generate("icn", 120_000, seed=2).subscriptions(0, 120_000)
    spoken = keys % len(LANGUAGES)
    shares = np.bincount(spoken, minlength=len(LANGUAGES)) / len(keys)
    speakers = np.array(list(SPEAKERS.values()))
    np.testing.assert_allclose(shares, speakers / speakers.sum(), atol=0.003)
    for row, language in zip(tags.to_pylist()[:500], spoken[:500]):
        prefix = f"{LANGUAGES[language]}_" if language else ""
        for tag in row:
            assert tag.removeprefix("sy1_").removeprefix("sy2_") == prefix + in_english(tag)


def test_the_mixture_keeps_the_proportions_of_the_traces() -> None:
    _, keys = generate("icn", 1_200_000, seed=1).subscriptions(0, 1_200_000)
    application = keys // len(LANGUAGES) % len(APPLICATIONS)
    shares = np.bincount(application, minlength=len(APPLICATIONS)) / len(keys)
    traced = np.array([model.descriptors for model in APPLICATIONS.values()])
    np.testing.assert_allclose(shares, traced / traced.sum(), atol=0.005)


def test_users_have_as_many_descriptors_as_in_the_traces() -> None:
    for name, model in APPLICATIONS.items():
        work = generate(name, 120_000, seed=1)
        users = work.subscriptions(0, 120_000)[1] // len(LANGUAGES)
        assert users.max() < max(1, round(10_000 / model.per_user))


def test_an_event_can_have_more_tags_than_usual() -> None:
    work = generate("blog-posts", 500, seed=1, parameters={"extra_tags": 20})
    assert all(len(event) >= 25 for event in work.events(50).to_pylist())


# A name, a size and a seed promise the same rows for good (docs/versions.md).
PINNED = {
    "twitter": "996ec6050e5574e6",
    "twitter-popular": "81d15514d2902ef9",
    "peers": "307344bad60065d7",
    "skew": "ae24d778942d6d9a",
    "active-web": "39064fb9771d9f6a",
    "blog-posts": "f71bfaf38dd2fbe2",
    "video": "5d376ac8918557f1",
    "short-messages": "95ec5f31d9bcfac8",
    "bittorrent": "2c472821cc8f4d73",
    "icn": "abdadc79fec3e7b8",
}


@pytest.mark.parametrize("name", PINNED)
def test_the_rows_of_a_workload_never_change(name: str) -> None:
    work = my.workload("tags", name, size=5000, seed=3)
    tags, keys = work.subscriptions(1000, 1500)
    rows = [tags.to_pylist(), keys.tolist(), work.events(200).to_pylist()]
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == PINNED[name]
