"""The applications of an information-centric network, as workloads [thesis §2.4.3].

    user, item ─▶ descriptor ─normalise─▶ ─amplify─▶ 12 copies ─synonyms─▶ subscriptions

A descriptor describes an item (a site, a topic, a video, a link, a torrent) with words of the
item's subject. Descriptors of one item or one subject therefore have tags in common, as in the
traces of the thesis. Rows 12 i … 12 i + 11 are the copies of descriptor i.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.workload.descriptors import (
    MOST,
    N_LANGUAGES,
    copies,
    expand,
    normalise,
    shares,
    spell,
    vary,
)
from matchyard.engines.tags.workload.people import choose
from matchyard.kernels.csr import append_new, ragged, take_rows
from matchyard.kernels.random import Zipf, below, draw, fraction, pick, zipf

_WIDEST = 64  # the most tags in a row; an event gets no extra tags beyond it
_TRIES = 200  # draws for the tags of one row
_N_NAMES = 1 << 21  # more than the words of any application, so that a mixture can share names
_ITEM_WORDS = 30  # users choose from so many words to describe the same item
_ITEM, _SUBJECT, _EVENT = 0x4954, 0x5355, 0xE7E7  # each changes the seed to its own random state


class Application(NamedTuple):
    """The parameters of a named application. Counts are from the thesis, or follow from its counts,
    unless the line says "ours"."""

    descriptors: int  # in the trace; the mixture has the same proportions
    per_user: float  # descriptors per user
    per_item: float  # descriptors per item (ours); 0: every descriptor has its own item
    n_items: int  # a fixed number of items; 0: computed from `per_item`
    n_words: int  # in the vocabulary; Zipf with exponent 0.9 (ours)
    n_subjects: int  # of the items (ours); 0: every item, or every user, is a subject
    subject_words: int  # words of a subject, the first ones more frequent than the last (ours)
    about: float  # share of an item's words that belong to its subject (ours)
    mean_tags: float  # per descriptor, before normalisation
    shape: int  # of the negative binomial distribution of tags beyond the first; 0: always the mean
    whole: bool  # a descriptor has all words of its item; False: the words of one user


APPLICATIONS = {
    # Delicious: 420 M tags on 123 M bookmarks of 922 651 users. Vocabulary: ours.
    "active-web": Application(
        123_248_896, 123_248_896 / 922_651, 8, 0, 2_000_000, 20_000, 40, 0.7, 420 / 123.2, 1, False
    ),
    # Blog06: the ten words of one of 400 topics per relevant post. Vocabulary: ours.
    "blog-posts": Application(178_189, 178_189 / 59_185, 0, 400, 20_000, 0, 10, 1, 10, 0, True),
    # YouTube politics: keywords that uploaders gave to their videos. Tags and vocabulary: ours.
    "video": Application(10_351, 10_351 / 782, 0, 0, 20_000, 0, 12, 0.7, 9, 3, True),
    # Twitter: all hashtags of a link, for each user who tweeted it. Tags and vocabulary: ours.
    "short-messages": Application(
        446_370, 446_370 / 349_753, 3, 0, 200_000, 2_000, 40, 0.6, 2.2, 1, True
    ),
    # BitTorrent: queries with 1 353 662 different words. Users and tags: ours.
    "bittorrent": Application(9_669_035, 20, 10, 0, 1_353_662, 5_000, 40, 0.3, 3, 2, False),
}
MIXTURE = "icn"  # all applications in proportion, each with its own users


class _Recipe(NamedTuple):
    """An application, the seed and tables for the kernels."""

    seed: int
    application: int  # its number in the mixture; 0 without a mixture
    n_applications: int
    n_users: int
    n_items: int
    n_words: int
    n_subjects: int
    subject_words: int
    about: float
    whole: bool
    own_items: bool
    factor: int
    extra_fewest: int
    extra_most: int
    lengths: NDArray[np.float64]  # [n] cumulative shares of descriptors with 1 … n tags
    shares: NDArray[np.float64]  # [N_LANGUAGES] cumulative, by native speakers
    popularity: Zipf


class Applications:
    """A named application, or the mixture of all, with `size` subscriptions.

    >>> web = Applications("active-web", size=1000, seed=7)
    >>> tags, keys = web.subscriptions(0, 24)
    >>> len(tags), len(keys), len(web.events(5))
    (24, 24, 5)
    """

    def __init__(self, name: str, size: int, seed: int, extra_tags: int | None = None) -> None:
        self.name, self.size, self.seed = name, size, seed
        models = list(APPLICATIONS.values()) if name == MIXTURE else [APPLICATIONS[name]]
        traced = np.array([model.descriptors for model in models], np.float64)
        self._models, self._extra_tags = models, extra_tags
        self._proportions = np.cumsum(traced) / traced.sum()

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1 as an Arrow list of strings, and their keys."""
        return self._text(*self.rows(start, stop))

    def rows(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1 as numbers: (start of each row, names, keys)."""
        return self._make(np.arange(start, stop), np.empty(0, np.int64))

    def words(self, names: NDArray[np.int64]) -> pa.Array:
        """The text of names that are given as numbers, as `rows` returns them."""
        return spell(np.array([0, len(names)]), names, _N_NAMES).values

    def chunks(self, chunk: int = 1_000_000) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
        """All subscriptions, `chunk` at a time."""
        for start in range(0, self.size, chunk):
            yield self.subscriptions(start, min(self.size, start + chunk))

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events as an Arrow list of strings: each is a stored subscription with extra tags."""
        events = np.arange(start, start + n_events)
        return self._text(*self._make(_stored(self.seed, self.size, events), events))[0]

    def copies(self, languages: int = N_LANGUAGES) -> int:
        """The default number of copies that `expand` makes of a descriptor."""
        return copies(languages)

    def expand(
        self,
        tags: pa.Array,
        numbers: NDArray[np.int64],
        languages: int = N_LANGUAGES,
        factor: int | None = None,
    ) -> tuple[pa.Array, pa.Array]:
        """Apply the steps of this workload to given descriptors: (tags, languages).

        Each is normalised, copied `factor` times into the most spoken `languages`, and gets
        synonyms. Its copies follow each other. The number of a descriptor selects its random state.
        """
        return expand(tags, numbers, self.seed, languages, factor)

    @cached_property
    def _recipes(self) -> list[_Recipe]:
        """The recipes of the applications; `expand` does not need them, so they are made late."""
        n_sources = -(-self.size // copies())
        return [
            _recipe(
                model, n_sources * share, self.seed, number, len(self._models), self._extra_tags
            )
            for number, (model, share) in enumerate(
                zip(self._models, np.diff(self._proportions, prepend=0.0).tolist())
            )
        ]

    def _make(
        self, numbers: NDArray[np.int64], events: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Make the rows with the given numbers; for events, add tags."""
        application = _places(self.seed, numbers, self._recipes[0].factor, self._proportions)
        parts = [
            _rows(
                recipe, numbers[application == number], events[application[: len(events)] == number]
            )
            for number, recipe in enumerate(self._recipes)
        ]
        counts, names, keys = (np.concatenate(part) for part in zip(*parts))
        back = np.empty(len(numbers), np.int64)  # position of each row in the order by application
        back[np.argsort(application, kind="stable")] = np.arange(len(numbers))
        return (*take_rows(ragged(counts), names, back), keys[back])

    def _text(
        self, start: NDArray[np.int64], names: NDArray[np.int64], keys: NDArray[np.int64]
    ) -> tuple[pa.Array, NDArray[np.int64]]:
        return spell(start, names, _N_NAMES), keys


def _recipe(
    model: Application, n_sources: float, seed: int, number: int, n_models: int, extra: int | None
) -> _Recipe:
    n_items = model.n_items or max(1, round(n_sources / (model.per_item or 1)))
    return _Recipe(
        seed, number, n_models, max(1, round(n_sources / model.per_user)), n_items, model.n_words,
        model.n_subjects, model.subject_words, model.about, model.whole,
        not (model.n_items or model.per_item), copies(), 2 if extra is None else extra,
        4 if extra is None else extra, _lengths(model.mean_tags, model.shape), shares(),
        zipf(model.n_words, 0.9),
    )  # fmt: skip


def _lengths(mean: float, shape: int) -> NDArray[np.float64]:
    """The cumulative shares of descriptors with 1, 2, … _ITEM_WORDS tags."""
    likely = np.zeros(_ITEM_WORDS)
    if not shape:
        likely[round(mean) - 1] = 1
        return np.cumsum(likely)
    chance = (mean - 1) / (mean - 1 + shape)
    likely[0] = 1.0
    for more in range(1, _ITEM_WORDS):
        likely[more] = likely[more - 1] * chance * (shape + more - 1) / more
    return np.cumsum(likely) / likely.sum()


@njit(nogil=True, cache=True)
def _stored(seed, size, events):
    """The number of the subscription that each event extends."""
    numbers = np.empty(len(events), np.int64)
    for i in range(len(events)):
        numbers[i] = below(draw(seed ^ _EVENT, events[i], 1), size)
    return numbers


@njit(nogil=True, cache=True)
def _places(seed, numbers, factor, proportions):
    """The application of each row, drawn by the number of its descriptor."""
    applications = np.zeros(len(numbers), np.int64)
    for i in range(len(numbers)):
        applications[i] = choose(proportions, draw(seed, numbers[i] // factor, 0))
    return applications


@njit(nogil=True, cache=True)
def _word(recipe, item, subject, position):
    """The word at a position in the description of an item."""
    seed = recipe.seed ^ _ITEM
    word = draw(seed, item, 2 * position + 10)
    if recipe.n_subjects == 0 and not recipe.own_items:
        return pick(recipe.popularity, word)
    if fraction(draw(seed, item, 2 * position + 11)) >= recipe.about:
        return pick(recipe.popularity, word)
    share = fraction(word)
    subject_word = np.int64(share * share * recipe.subject_words)
    return pick(recipe.popularity, draw(recipe.seed ^ _SUBJECT, subject, subject_word))


@njit(nogil=True, cache=True)
def _descriptor(recipe, source, row):
    """Fill `row` with descriptor `source`; returns (tags in it, user)."""
    seed = recipe.seed
    share = fraction(draw(seed, source, 1))
    user = np.int64(share * share * recipe.n_users)
    if recipe.own_items:  # a user's items have the user's subject
        item, subject = source, user
    else:
        share = fraction(draw(seed, source, 2))
        item = np.int64(share * share * share * recipe.n_items)
        share = fraction(draw(seed ^ _ITEM, item, 1))
        subject = np.int64(share * share * recipe.n_subjects)
    if recipe.whole:
        n_wanted = 1 + choose(recipe.lengths, draw(seed ^ _ITEM, item, 2))
    else:
        n_wanted = 1 + choose(recipe.lengths, draw(seed, source, 3))
    n_tags = 0
    for number in range(_TRIES):
        if n_tags == n_wanted:
            break
        position = number
        if not recipe.whole:
            share = fraction(draw(seed, source, 10 + number))
            position = np.int64(share * share * _ITEM_WORDS)
        n_tags = append_new(row, n_tags, _word(recipe, item, subject, position))
    return n_tags, user


@njit(nogil=True, cache=True)
def _add_tags(recipe, event, row, n_tags):
    """Add tags of any language to an event, by default two to four; returns the number of tags."""
    seed = recipe.seed ^ _EVENT
    span = recipe.extra_most - recipe.extra_fewest
    n_wanted = n_tags + recipe.extra_fewest + below(draw(seed, event, 2), span + 1)
    for number in range(_TRIES):
        if n_tags in (n_wanted, _WIDEST):
            break
        word = below(draw(seed, event, 2 * number + 10), recipe.n_words)
        language = below(draw(seed, event, 2 * number + 11), N_LANGUAGES)
        n_tags = append_new(row, n_tags, word + language * _N_NAMES)
    return n_tags


@njit(nogil=True, cache=True)
def _rows(recipe, numbers, events):
    """(tags per row, names, keys) of the rows with the given numbers; events get added tags."""
    widest = MOST + (recipe.extra_most if len(events) else 0)
    counts = np.zeros(len(numbers), np.int64)
    names = np.empty(len(numbers) * min(widest, _WIDEST), np.int64)
    keys = np.empty(len(numbers), np.int64)
    words = np.empty(_WIDEST, np.int64)
    row = np.empty(_WIDEST, np.int64)
    end, last, n_words, user = 0, -1, 0, 0
    for i in range(len(numbers)):
        source, copy = numbers[i] // recipe.factor, numbers[i] % recipe.factor
        if source != last:
            n_words, user = _descriptor(recipe, source, words)
            n_words = normalise(recipe.seed, source, words, n_words)
            last = source
        language = vary(
            recipe.seed, source, copy, recipe.factor, recipe.shares, words, n_words, _N_NAMES, row
        )
        n_tags = _add_tags(recipe, events[i], row, n_words) if len(events) else n_words
        names[end : end + n_tags] = row[:n_tags]
        counts[i] = n_tags
        # Every language and every application has its own users.
        keys[i] = (user * recipe.n_applications + recipe.application) * N_LANGUAGES + language
        end += n_tags
    return counts, names[:end].copy(), keys
