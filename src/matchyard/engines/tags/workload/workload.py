"""Workloads of tags: subscriptions and events as in the papers, by name, size and seed.

Every row is a function of (name, size, seed, row). A workload of any size can therefore be made in
pieces, in any order and on any number of machines, and is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.workload import people
from matchyard.engines.tags.workload.applications import APPLICATIONS, MIXTURE, Applications
from matchyard.engines.tags.workload.people import (
    LANGUAGES,
    N_LANGUAGES,
    first_language,
    has_second_language,
    is_frequent,
    publisher_of,
    second_language,
    tweet_of,
    user_of,
)
from matchyard.engines.tags.workload.readable_tags import write_word
from matchyard.engines.tags.workload.recorded import Recorded, congress, ego_twitter
from matchyard.errors import UsageError
from matchyard.kernels.csr import append_new, ragged
from matchyard.kernels.random import Zipf, below, draw, fraction, pick, zipf

MAX_TAGS = 24  # the most tags in one generated row


class Model(NamedTuple):
    """The parameters of a named workload."""

    n_hashtags: int
    fewest: int  # hashtags per subscription
    most: int
    users: bool  # with languages, publishers and followers as in the paper
    popular: bool  # draw the extra tags of events by popularity instead of uniformly
    extra_fewest: int
    extra_most: int
    exponent: float = 0.9  # of Zipf's law
    n_questions: int = 0  # an event is the tags of so many questions, not a subscription and more


MODELS = {
    "twitter": Model(2_000_000, 1, 11, True, False, 2, 4),
    "twitter-popular": Model(2_000_000, 1, 11, True, True, 2, 4),
    "peers": Model(1_000_000, 1, 9, False, True, 2, 4),
    "skew": Model(1_000, 5, 5, False, True, 4, 4),
    # Tags of Stack Exchange: at 1 M, about 12 000 subscriptions match an event.
    "dense": Model(1_600, 3, 5, False, True, 0, 0, 1.6, n_questions=2),
}


class Rows(NamedTuple):
    """Generated rows as numbers, before they are written as text."""

    start: NDArray[np.int64]  # [n_rows + 1]
    names: NDArray[np.int64]  # [start[-1]] hashtag + language * n_hashtags, or ~publisher
    keys: NDArray[np.int64]  # [n_rows] the subscriber


class Workload:
    """A named workload of `size` subscriptions, made on request.

    >>> small = generate("peers", size=1000, seed=7)
    >>> tags, keys = small.subscriptions(0, 2)
    >>> len(tags), len(keys), len(small.events(5))
    (2, 2, 5)
    """

    def __init__(self, name: str, size: int, seed: int, extra_tags: int | None = None) -> None:
        model = MODELS[name]
        if extra_tags is not None:
            model = model._replace(extra_fewest=extra_tags, extra_most=extra_tags)
        self.name, self.size, self.seed, self.model = name, size, seed, model
        self._popularity = zipf(model.n_hashtags, model.exponent)
        self._first = np.cumsum(people.FIRST) / sum(people.FIRST)
        self._second = np.cumsum(people.SECOND) / sum(people.SECOND)

    def rows(self, start: int, stop: int) -> Rows:
        """Subscriptions `start` … `stop`-1 as numbers."""
        return Rows(*_subscriptions(self._recipe(), start, stop))

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1 as an Arrow list of strings, and their keys."""
        rows = self.rows(start, stop)
        return self._text(rows), rows.keys

    def chunks(self, chunk: int = 1_000_000) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
        """All subscriptions, `chunk` at a time."""
        for start in range(0, self.size, chunk):
            yield self.subscriptions(start, min(self.size, start + chunk))

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events as an Arrow list of strings: each is a stored subscription with extra tags."""
        return self._text(Rows(*_events(self._recipe(), start, start + n_events)))

    @property
    def n_users(self) -> int:
        """The number of users who have the interests."""
        return people.n_users_of(self.size)

    @property
    def n_tweets(self) -> int:
        """The number of tweets that the interests copy."""
        return people.n_tweets_of(self.size)

    @property
    def n_publishers(self) -> int:
        """The number of publishers of the tweets; the last few may have no tweet."""
        return -(-self.n_tweets // people.TWEETS_PER_GROUP) * people.PUBLISHERS_PER_GROUP

    def users(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """Users `start` … `stop`-1: their languages and numbers of interests.

        >>> generate("twitter", size=900, seed=7).users().column_names
        ['user', 'first_language', 'second_language', 'interests']
        """
        stop = self._check_people(stop, self.n_users)
        first, second, interests = people.describe_users(
            self.seed, self.size, self._first, self._second, start, stop
        )
        names = pa.array(LANGUAGES)
        return pa.table({
            "user": np.arange(start, stop),
            "first_language": names.take(pa.array(first)),
            "second_language": names.take(pa.array(second, mask=second < 0)),
            "interests": interests,
        })  # fmt: skip

    def publishers(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """Publishers `start` … `stop`-1: the tag of their id, and counts of tweets and followers.

        Every interest that copies a tweet of the publisher counts as a follower.
        """
        stop = self._check_people(stop, self.n_publishers)
        n_tweets, n_followers = people.describe_publishers(self.seed, self.size, start, stop)
        publishers = np.arange(start, stop)
        return pa.table({
            "publisher": publishers,
            "tag": self.words(~publishers),
            "frequent": is_frequent(publishers),
            "tweets": n_tweets,
            "followers": n_followers,
        })  # fmt: skip

    def tweets(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """Tweets `start` … `stop`-1: their publishers, and their hashtags in English."""
        stop = self._check_people(stop, self.n_tweets)
        rows = Rows(*_tweets(self._recipe(), start, stop))
        return pa.table(
            {"tweet": np.arange(start, stop), "publisher": rows.keys, "tags": self._text(rows)}
        )

    def _check_people(self, stop: int | None, n_people: int) -> int:
        if not self.model.users:
            raise UsageError(f"{self.name!r} has no users; expected 'twitter' or 'twitter-popular'")
        return n_people if stop is None else min(stop, n_people)

    def _recipe(self) -> _Recipe:
        model = self.model
        return _Recipe(
            self.seed, self.size, model.n_hashtags, model.fewest, model.most, model.users,
            model.popular, model.extra_fewest, model.extra_most, model.n_questions,
            self._popularity, self._first, self._second,
        )  # fmt: skip

    def _text(self, rows: Rows) -> pa.Array:
        return pa.ListArray.from_arrays(rows.start.astype(np.int32), self.words(rows.names))

    def words(self, names: NDArray[np.int64]) -> pa.Array:
        """The text of names that are given as numbers, as in `Rows`."""
        text, text_start = _spell(names, self.model.n_hashtags, _PREFIXES)
        return pa.StringArray.from_buffers(len(names), pa.py_buffer(text_start), pa.py_buffer(text))


_RECORDED = {"congress": congress, "ego-twitter": ego_twitter}


def generate(
    name: str = "twitter",
    size: int = 1_000_000,
    seed: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Workload | Applications | Recorded:
    """Make a named workload; the parameter `extra_tags` sets how many tags an event adds."""
    if size < 1:
        raise UsageError(f"a workload needs at least one subscription, not {size}")
    given = parameters or {}
    for parameter in given:
        if parameter != "extra_tags":
            raise UsageError(f"no parameter {parameter!r} of {name!r}; expected: extra_tags")
    extra_tags = given.get("extra_tags")
    if not (extra_tags is None or isinstance(extra_tags, int)) or (extra_tags or 0) < 0:
        raise UsageError(f"parameter 'extra_tags' is a count, not {extra_tags!r}")
    if name in _RECORDED:
        if extra_tags is not None:
            raise UsageError(f"the events of {name!r} are recorded: no tags can be added to them")
        return _RECORDED[name](size, seed)
    if name in APPLICATIONS or name == MIXTURE:
        return Applications(name, size, seed, extra_tags)
    if name not in MODELS:
        known = ", ".join([*MODELS, *APPLICATIONS, MIXTURE, *_RECORDED])
        raise UsageError(f"no tags workload {name!r}; expected one of: {known}")
    return Workload(name, size, seed, extra_tags)


class _Recipe(NamedTuple):
    """Model, seed and tables for the kernels."""

    seed: int
    size: int
    n_hashtags: int
    fewest: int
    most: int
    users: bool
    popular: bool
    extra_fewest: int
    extra_most: int
    n_questions: int
    popularity: Zipf
    first: NDArray[np.float64]
    second: NDArray[np.float64]


@njit(nogil=True, cache=True)
def _hashtags(recipe, source, language, row):
    """Fill `row` with distinct hashtags of tweet `source` in a language; returns their number."""
    seed = recipe.seed
    span = recipe.most - recipe.fewest
    n_wanted = recipe.fewest
    if recipe.users:  # binomial: mean 4.5 of 1 … 11; with publisher ids the mean is five
        for trial in range(span):
            n_wanted += fraction(draw(seed, source, 100 + trial)) < 0.35
    else:
        n_wanted += below(draw(seed, source, 100), span + 1)
    n_tags = 0
    for number in range(200):
        if n_tags == n_wanted:
            break
        rank = pick(recipe.popularity, draw(seed, source, 1000 + number))
        n_tags = append_new(row, n_tags, rank + language * recipe.n_hashtags)
    return n_tags


@njit(nogil=True, cache=True)
def _subscription(recipe, number, row):
    """Fill `row` with subscription `number`; returns (tags in it, language, key)."""
    seed, size = recipe.seed, recipe.size
    if not recipe.users:
        return _hashtags(recipe, number, 0, row), 0, number
    user = user_of(seed, size, number)
    language = first_language(seed, recipe.first, user)
    if has_second_language(seed, user) and fraction(draw(seed, number, 4)) < 0.5:
        language = second_language(seed, recipe.second, user)
    tweet = tweet_of(seed, size, number)
    n_tags = _hashtags(recipe, tweet, language, row)
    publisher = publisher_of(tweet)
    if is_frequent(publisher):
        n_tags = append_new(row, n_tags, ~publisher)
    return n_tags, language, user


@njit(nogil=True, cache=True)
def _subscriptions(recipe, start, stop):
    counts = np.zeros(stop - start, np.int64)
    names = np.empty((stop - start) * MAX_TAGS, np.int64)
    keys = np.empty(stop - start, np.int64)
    row = np.empty(MAX_TAGS, np.int64)
    end = 0
    for number in range(start, stop):
        n_tags, _, key = _subscription(recipe, number, row)
        names[end : end + n_tags] = row[:n_tags]
        counts[number - start], keys[number - start] = n_tags, key
        end += n_tags
    return ragged(counts), names[:end].copy(), keys


@njit(nogil=True, cache=True)
def _tweets(recipe, start, stop):
    counts = np.zeros(stop - start, np.int64)
    names = np.empty((stop - start) * MAX_TAGS, np.int64)
    publishers = np.empty(stop - start, np.int64)
    row = np.empty(MAX_TAGS, np.int64)
    end = 0
    for tweet in range(start, stop):
        n_tags = _hashtags(recipe, tweet, 0, row)
        names[end : end + n_tags] = row[:n_tags]
        counts[tweet - start], publishers[tweet - start] = n_tags, publisher_of(tweet)
        end += n_tags
    return ragged(counts), names[:end].copy(), publishers


@njit(nogil=True, cache=True)
def _questions(recipe, seed, event, row):
    """Fill `row` with the tags of some questions, each of 1 to 5 tags and 2.2 on average; returns their number."""
    n_tags = 0
    own = np.empty(5, np.int64)
    for question in range(recipe.n_questions):
        n_wanted, n_own = 1, 0
        for trial in range(4):
            n_wanted += fraction(draw(seed, event, 1000 * question + 20 + trial)) < 0.3
        for number in range(200):
            if n_own == n_wanted:
                break
            tag = pick(recipe.popularity, draw(seed, event, 1000 * question + 30 + number))
            n_own = append_new(own, n_own, tag)
        for i in range(n_own):
            n_tags = append_new(row, n_tags, own[i])
    return n_tags


@njit(nogil=True, cache=True)
def _events(recipe, start, stop):
    seed = np.int64(recipe.seed) ^ 0xE7E7
    counts = np.zeros(stop - start, np.int64)
    names = np.empty((stop - start) * MAX_TAGS, np.int64)
    keys = np.empty(stop - start, np.int64)
    row = np.empty(MAX_TAGS, np.int64)
    end = 0
    for event in range(start, stop):
        source = below(draw(seed, event, 1), recipe.size)
        if recipe.n_questions:
            n_tags, language = _questions(recipe, seed, event, row), 0
        else:
            n_tags, language, _ = _subscription(recipe, source, row)
        span = recipe.extra_most - recipe.extra_fewest
        n_wanted = n_tags + recipe.extra_fewest + below(draw(seed, event, 2), span + 1)
        for number in range(200):
            if n_tags in (n_wanted, MAX_TAGS):
                break
            word = draw(seed, event, 10 + number)
            if recipe.popular:  # a tweet is written in one language
                name = pick(recipe.popularity, word) + language * recipe.n_hashtags
            else:
                name = below(word, recipe.n_hashtags * (N_LANGUAGES if recipe.users else 1))
            n_tags = append_new(row, n_tags, name)
        names[end : end + n_tags] = row[:n_tags]
        counts[event - start], keys[event - start] = n_tags, source
        end += n_tags
    return ragged(counts), names[:end].copy(), keys


_PREFIXES = np.frombuffer(
    ("   " + "".join(f"{name}_" for name in LANGUAGES[1:])).encode(), np.uint8
)


@njit(nogil=True, cache=True)
def _spell(names, n_hashtags, prefixes):
    text = np.empty(len(names) * 16, np.uint8)
    text_start = np.empty(len(names) + 1, np.int32)
    end = 0
    for i in range(len(names)):
        text_start[i] = end
        name = names[i]
        if name < 0:
            text[end] = 64  # "@"
            end = write_word(text, end + 1, ~name)
            continue
        language = name // n_hashtags
        if language:  # English has no prefix
            text[end : end + 3] = prefixes[3 * language : 3 * language + 3]
            end += 3
        end = write_word(text, end, name % n_hashtags)
    text_start[len(names)] = end
    return text[:end].copy(), text_start
