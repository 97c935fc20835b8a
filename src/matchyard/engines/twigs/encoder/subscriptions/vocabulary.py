"""Make vocabularies from terms, and translate twigs between terms and symbols.

Names are numbered by falling use, and by their bytes among equals; tests are sorted. A vocabulary
thus depends only on its content, not on the order of additions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import ANY, Twigs, Vocabulary
from matchyard.engines.twigs.encoder.subscriptions.terms import is_test, read_tests, terms_of
from matchyard.engines.twigs.language.model import Comparison, Source
from matchyard.errors import UsageError
from matchyard.kernels.csr import count_values
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.strings import Interner, Names, freeze, rank_names

_UNCOUNTED = np.empty((0, 2), np.int64)
_OF_TEXT = (Comparison.EQUAL, Comparison.UNEQUAL)


def encode(twigs: Twigs, terms: pa.Array) -> tuple[Twigs, Vocabulary]:
    """Translate twigs over terms to a new vocabulary with only the terms in use."""
    vocabulary, symbols = build(terms, count_values(twigs.symbol, len(terms)))
    return renumber(twigs, symbols), vocabulary


def inspect(vocabulary: Vocabulary, place: str, is_thorough: bool) -> None:
    """Refuse a vocabulary that is unsafe for encoding: see `kernels.inspection`."""
    look = Inspection(vocabulary, place, is_thorough)
    look.names("names")
    n_attributes, n_texts = look.names("attributes"), look.names("texts")
    n_tests = look.length("source")
    look.values("source", 0, len(Source))
    look.values("attribute", -1, n_attributes, n_tests)
    look.values("test", 0, len(Comparison), n_tests)
    look.values("text", -1, n_texts, n_tests)
    look.shape("number", n_tests)
    if is_thorough:
        # Terms tell names from tests by their first character, and attributes end with a blank.
        for field, names in (("names", vocabulary.names), ("attributes", vocabulary.attributes)):
            look.expect(field, (np.diff(names.text_start) > 0).all(), "has an empty name")
        first = vocabulary.names.text[vocabulary.names.text_start[:-1]]
        look.expect("names", (first > ord("9")).all(), "has an entry that is no name of XML")
        is_so = not (vocabulary.attributes.text <= ord(" ")).any()
        look.expect("attributes", is_so, "has an entry that is no name of XML")
        is_so = (vocabulary.source == Source.ATTRIBUTE.value) == (vocabulary.attribute >= 0)
        look.expect("attribute", is_so.all(), "is set for other sources, or missing")
        is_so = np.isin(vocabulary.test, _OF_TEXT) == (vocabulary.text >= 0)
        look.expect("text", is_so.all(), "is set for other tests, or missing")
    look.finish()


def renumber(twigs: Twigs, numbers: NDArray[np.int32]) -> Twigs:
    """Replace symbols by `numbers`, except for `*`."""
    return twigs._replace(symbol=np.append(numbers, np.int32(ANY))[twigs.symbol])


def build(terms: pa.Array, uses: NDArray[np.int64]) -> tuple[Vocabulary, NDArray[np.int32]]:
    """A vocabulary of the terms in use, and the symbol of each term (0: not in use)."""
    symbols = np.zeros(len(terms), np.int32)
    of_tests = is_test(terms) if len(terms) else np.empty(0, np.bool_)
    named = np.flatnonzero((uses > 0) & ~of_tests)
    names, rank = _by_uses(terms.take(pa.array(named)), uses[named])
    symbols[named] = 1 + rank
    tested = np.flatnonzero((uses > 0) & of_tests)
    vocabulary, rank = _with_tests(names, terms.take(pa.array(tested)))
    symbols[tested] = 1 + vocabulary.n_names + rank
    return vocabulary, symbols


def _by_uses(words: pa.Array, uses: NDArray[np.int64]) -> tuple[Names, NDArray[np.int32]]:
    """Names by falling use, and the id of each word."""
    order = pc.array_sort_indices(words).to_numpy()
    interner = Interner()
    interner.intern_arrow(words.take(pa.array(order)))
    names, rank = rank_names(interner.names(), uses[order])
    ids = np.empty(len(words), np.int32)
    ids[order] = rank
    return names, ids


def _with_tests(names: Names, terms: pa.Array) -> tuple[Vocabulary, NDArray[np.int32]]:
    """A vocabulary with these tests, and the rank of each among them."""
    source, test, attribute, text, number = read_tests(terms)
    attributes, attribute_ids = _in_order(attribute, source == Source.ATTRIBUTE)
    texts, text_ids = _in_order(text, np.isin(test, _OF_TEXT))
    order = np.lexsort((number, text_ids, test, attribute_ids, source))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    columns: Any = (source, attribute_ids, test, text_ids, number)
    return Vocabulary(names, attributes, texts, *(column[order] for column in columns)), rank


def _in_order(words: pa.Array, wanted: NDArray[np.bool_]) -> tuple[Names, NDArray[np.int32]]:
    """The distinct wanted words in order of their bytes, and the id of each word (-1: not wanted)."""
    distinct = pc.unique(words.filter(pa.array(wanted)))
    distinct = distinct.take(pc.array_sort_indices(distinct))
    interner = Interner()
    interner.intern_arrow(distinct)
    names, _ = rank_names(interner.names(), np.ones(len(distinct), np.int64))
    ids = pc.fill_null(pc.index_in(words, distinct), -1).to_numpy().astype(np.int32)
    return freeze(names._replace(uses=_UNCOUNTED)), np.where(wanted, ids, np.int32(-1))


def uses_all(twigs: Twigs, vocabulary: Vocabulary) -> bool:
    """True if the twigs use the whole vocabulary, with the same counts."""
    uses = count_values(twigs.symbol, vocabulary.n_symbols)
    n_names = vocabulary.n_names
    return bool(
        (uses[1 : 1 + n_names] == vocabulary.names.counts()).all() and uses[1 + n_names :].all()
    )


def intern_terms(interner: Interner, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The ids of terms by symbol; symbol 0 has no term, and its id is a dummy."""
    ids = interner.intern_arrow(terms_of(vocabulary))
    return np.concatenate([np.zeros(1, np.int32), ids])


def over_terms(twigs: Twigs) -> Twigs:
    """Twigs over the terms of their vocabulary, in place of its symbols: symbol 0 has no term."""
    symbols = twigs.symbol
    return twigs._replace(symbol=np.where(symbols == ANY, ANY, symbols - np.int32(1)))


def encode_known(twigs: Twigs, terms: pa.Array, vocabulary: Vocabulary) -> Twigs:
    """Translate twigs over terms to a vocabulary, which must have all these terms."""
    ids = pc.index_in(terms, terms_of(vocabulary))
    if ids.null_count:
        missing = terms.filter(ids.is_null())[0].as_py()
        raise UsageError(f"{missing!r} is not in the vocabulary: it was not counted")
    return renumber(twigs, ids.to_numpy().astype(np.int32) + np.int32(1))


def count(twigs: Twigs, terms: pa.Array) -> pa.Table:
    """Count the terms of a part of the subscriptions: columns `name` and `count`."""
    return pa.table({"name": terms, "count": count_values(twigs.symbol, len(terms))})


def merge_counts(parts: Iterable[pa.Table]) -> Vocabulary:
    """The vocabulary of all parts."""
    schema = pa.schema([("name", pa.large_string()), ("count", pa.int64())])
    tables = [schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)]
    total = pa.concat_tables(tables).group_by("name").aggregate([("count", "sum")])
    terms = total["name"].combine_chunks()
    return build(terms, total["count_sum"].to_numpy())[0]
