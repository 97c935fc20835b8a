"""The three steps from descriptors of applications to subscriptions [thesis §2.4.3].

Normalisation makes long descriptors less specific, amplification copies them into the languages of
the world, and synonyms make the copies differ. Each step is a function of (seed, number of the
descriptor, number of the copy), for generated and given descriptors, and independent of other rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.workload.people import locate
from matchyard.engines.tags.workload.readable_tags import write_word
from matchyard.errors import UsageError
from matchyard.kernels.csr import append_new, ragged
from matchyard.kernels.random import below, draw, fraction

# Native speakers in millions, about 2010, rounded; English comes first, since it has no prefix.
SPEAKERS = {
    "english": 360, "mandarin": 955, "spanish": 405, "hindi": 310, "arabic": 295,
    "portuguese": 215, "bengali": 205, "russian": 155, "japanese": 125, "punjabi": 102,
    "german": 89, "javanese": 82, "wu": 80, "malay": 77, "telugu": 76,
    "vietnamese": 76, "korean": 76, "french": 74, "marathi": 73, "tamil": 70,
    "urdu": 66, "turkish": 63, "italian": 59, "cantonese": 59, "thai": 56,
}  # fmt: skip
LANGUAGES = tuple(SPEAKERS)
N_LANGUAGES = len(LANGUAGES)
N_SYNONYMS = 2  # per tag
ALWAYS, ADDED = 5, 10  # tags that are always kept, and the most of the others
FALL = 0.8  # factor of the falling chance of each next tag (ours; the thesis says: exponentially)
MOST = ALWAYS + ADDED  # tags of a normalised descriptor
# Each step changes the seed to its own random state.
_NORMALISE, _AMPLIFY, _REPLACE = 0x4E4F, 0x414D, 0x5359

_PREFIXES = [
    synonym + language
    for synonym in ("", *(f"sy{number}_" for number in range(1, N_SYNONYMS + 1)))
    for language in ("", *(f"{name}_" for name in LANGUAGES[1:]))
]
_PREFIX_TEXT = np.frombuffer("".join(_PREFIXES).encode(), np.uint8)
_PREFIX_START = np.cumsum([0, *map(len, _PREFIXES)]).astype(np.int64)
_LONGEST_PREFIX = max(map(len, _PREFIXES))
_LONGEST_WORD = 10  # five syllables, for numbers below 10 ** 10


def shares(n_languages: int = N_LANGUAGES) -> NDArray[np.float64]:
    """The cumulative shares of the first `n_languages` languages, by native speakers."""
    if not 1 <= n_languages <= N_LANGUAGES:
        raise UsageError(f"{n_languages} languages; expected 1 to {N_LANGUAGES}, say 25")
    speakers = np.array(list(SPEAKERS.values())[:n_languages], np.float64)
    return np.cumsum(speakers) / speakers.sum()


def copies(n_languages: int = N_LANGUAGES) -> int:
    """The number of copies of a descriptor with which about one copy is English.

    >>> copies(), copies(1)
    (12, 1)
    """
    return round(1 / float(shares(n_languages)[0]))


def expand(
    tags: pa.Array,
    numbers: NDArray[np.int64],
    seed: int,
    n_languages: int = N_LANGUAGES,
    factor: int | None = None,
) -> tuple[pa.Array, pa.Array]:
    """Normalise descriptors, copy each `factor` times and add synonyms: (tags, languages).

    The copies of a descriptor follow each other. Its number in `numbers` selects its random state.
    Of repeated tags only the first counts.

    >>> expand(pa.array([["jazz", "live"]]), np.array([7]), 1, n_languages=1)[1].to_pylist()
    ['english']
    """
    factor = copies(n_languages) if factor is None else factor
    if factor < 1:
        raise UsageError(f"{factor} copies of a descriptor; expected at least 1, say 12")
    tags = tags.cast(pa.list_(pa.string())).fill_null([])
    start = np.asarray(tags.offsets).astype(np.int64)
    words = tags.values.dictionary_encode()
    ids = words.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts, names, spoken = _expand(
        seed, start, ids, np.ascontiguousarray(numbers, np.int64), factor, shares(n_languages),
        max(1, len(words.dictionary)),
    )  # fmt: skip
    return spell(counts, names, len(words.dictionary), words.dictionary), pa.array(LANGUAGES).take(
        pa.array(spoken)
    )


def spell(
    start: NDArray[np.int64], names: NDArray[np.int64], n_words: int, words: pa.Array | None = None
) -> pa.Array:
    """Write names as text: a prefix, then the given word or syllables."""
    if words is None:
        text, text_start, longest = np.empty(0, np.uint8), np.empty(0, np.int64), _LONGEST_WORD
    else:
        text, text_start = _buffers(words)
        longest = int(np.diff(text_start).max(initial=0))
    spelled, spelled_start = _spell(
        names, n_words, text, text_start, longest + _LONGEST_PREFIX, _PREFIX_TEXT, _PREFIX_START
    )
    values = pa.StringArray.from_buffers(
        len(names), pa.py_buffer(spelled_start), pa.py_buffer(spelled)
    )
    return pa.ListArray.from_arrays(start.astype(np.int32), values)


def _buffers(words: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    _, offsets, data = words.buffers()
    start = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text, start.astype(np.int64)


@njit(nogil=True, cache=True)
def normalise(seed, number, row, n_tags):
    """Keep the first five tags, and up to ten others with falling chances; returns their number."""
    kept, chance = min(n_tags, ALWAYS), 1.0
    for position in range(ALWAYS, n_tags):
        if kept == MOST:
            break
        chance *= FALL
        if fraction(draw(seed ^ _NORMALISE, number, position)) < chance:
            row[kept] = row[position]
            kept += 1
    return kept


@njit(nogil=True, cache=True)
def amplify(seed, number, copy, factor, shares):
    """The language of a copy: the copies of one descriptor divide the shares evenly."""
    offset = fraction(draw(seed ^ _AMPLIFY, number, 0))
    return locate(shares, (copy + offset) / factor)


@njit(nogil=True, cache=True)
def replace(seed, number, copy, row, n_tags, n_names):
    """Replace zero, one or two tags of a copy by a synonym; all choices are equally likely."""
    seed = seed ^ _REPLACE
    n_replaced = min(n_tags, below(draw(seed, number, 8 * copy), 3))
    first = below(draw(seed, number, 8 * copy + 1), n_tags)
    for turn in range(n_replaced):
        position = first
        if turn:  # any tag but the first one
            position = (first + 1 + below(draw(seed, number, 8 * copy + 2), n_tags - 1)) % n_tags
        synonym = 1 + below(draw(seed, number, 8 * copy + 3 + turn), N_SYNONYMS)
        row[position] += synonym * n_names


@njit(nogil=True, cache=True)
def vary(seed, number, copy, factor, shares, words, n_tags, n_words, row):
    """Fill `row` with a copy of a normalised descriptor; returns its language."""
    language = amplify(seed, number, copy, factor, shares)
    for i in range(n_tags):
        row[i] = words[i] + language * n_words
    replace(seed, number, copy, row, n_tags, n_words * N_LANGUAGES)
    return language


@njit(nogil=True, cache=True)
def _expand(seed, start, ids, numbers, factor, shares, n_words):
    n_rows = len(numbers)
    counts = np.zeros(n_rows * factor, np.int64)
    spoken = np.zeros(n_rows * factor, np.int64)
    names = np.empty(n_rows * factor * MOST, np.int64)
    row = np.empty(MOST, np.int64)
    end = 0
    for i in range(n_rows):
        words = np.empty(start[i + 1] - start[i], np.int64)
        n_tags = 0
        for position in range(start[i], start[i + 1]):
            if ids[position] >= 0:
                n_tags = append_new(words, n_tags, ids[position])
        n_tags = normalise(seed, numbers[i], words, n_tags)
        for copy in range(factor):
            language = vary(seed, numbers[i], copy, factor, shares, words, n_tags, n_words, row)
            names[end : end + n_tags] = row[:n_tags]
            counts[i * factor + copy], spoken[i * factor + copy] = n_tags, language
            end += n_tags
    return ragged(counts), names[:end].copy(), spoken


@njit(nogil=True, cache=True)
def _spell(names, n_words, words, word_start, longest, prefixes, prefix_start):
    text = np.empty(len(names) * longest, np.uint8)
    text_start = np.empty(len(names) + 1, np.int32)
    end = 0
    for i in range(len(names)):
        text_start[i] = end
        prefix, word = names[i] // n_words, names[i] % n_words
        for position in range(prefix_start[prefix], prefix_start[prefix + 1]):
            text[end] = prefixes[position]
            end += 1
        if len(word_start) == 0:
            end = write_word(text, end, word)
            continue
        for position in range(word_start[word], word_start[word + 1]):
            text[end] = words[position]
            end += 1
    text_start[len(names)] = end
    return text[:end].copy(), text_start
