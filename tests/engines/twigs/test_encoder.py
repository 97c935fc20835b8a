"""What is joined, cut and carried is the same as what is encoded in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.twigs import encoder
from matchyard.engines.twigs.language import parse

OPTIONS = encoder.Options()
WORK = my.workload("twigs", "dblp", 300, 1, {"tests": 0.5, "negations": 0.3})
TEXTS, KEYS = WORK.subscriptions(0, 300)


def staged(*columns: Any) -> Any:
    staging = encoder.Staging()
    for column in columns:
        staging.add(column, np.arange(column.n_rows))
    return staging.take()


def column(texts: Any) -> encoder.Subscriptions:
    return encoder.subscription_column(texts, OPTIONS)


def is_same(left: Any, right: Any) -> bool:
    """Are all arrays equal, also those of names?"""
    if isinstance(left, tuple):
        return all(map(is_same, left, right))
    return bool(np.array_equal(left, right))


def test_parts_have_the_vocabulary_of_the_whole() -> None:
    twigs, vocabulary, _ = staged(column(TEXTS))
    parts = [column(TEXTS[200:]), column(TEXTS[:200])]
    assert is_same(encoder.merge_counts(map(encoder.count, parts)), vocabulary)
    assert is_same(encoder.encode_known(column(TEXTS), vocabulary), twigs)
    merged = encoder.merge([staged(part)[:2] for part in reversed(parts)])
    assert is_same(merged, (twigs, vocabulary))


def test_what_was_not_counted_is_refused() -> None:
    _, vocabulary, _ = staged(column(["//a[@x = 1]"]))
    for text, missing in (("//b", "b"), ("//a[@x = 2]", "03x")):
        with pytest.raises(my.UsageError, match=f"'{missing}.* is not in the vocabulary"):
            encoder.encode_known(column([text]), vocabulary)


def test_rows_that_are_gone_leave_no_names() -> None:
    twigs, vocabulary, _ = staged(column(["//a[@x = 'v']", "//b[. > 1]"]))
    kept = encoder.keep(twigs, np.array([False, True]))
    expected = staged(column(["//b[. > 1]"]))[:2]
    assert is_same(encoder.merge([(kept, vocabulary)]), expected)


def test_twigs_are_read_back_as_they_were_written() -> None:
    twigs, vocabulary, _ = staged(column(TEXTS))
    again = encoder.parse_column(encoder.texts(twigs, 0, twigs.n_rows, vocabulary), OPTIONS)
    assert again == [parse(text) for text in TEXTS.to_pylist()]


def test_a_document_has_the_rarest_tag_of_what_it_matches() -> None:
    twigs, vocabulary, _ = staged(column(TEXTS))
    rarest, documents = encoder.rarest(twigs), WORK.events(10)
    batch = encoder.encode(encoder.column(documents, OPTIONS), vocabulary)
    start, ids = encoder.names_of(batch, vocabulary)
    found = my.TwigIndex().add_many(TEXTS, KEYS).consolidate().match(documents).to_lists()
    assert sum(map(len, found)) > 100
    for document, keys in enumerate(found):
        here = ids[start[document] : start[document + 1]].tolist()
        assert len(set(here)) == len(here)
        assert set(rarest[keys].tolist()) <= {-1, *here}


@pytest.mark.parametrize(
    ("text", "tag"), [("/a | /b", -1), ("//*", -1), ("//*[not(a[b])]", -1), ("//a[not(b)]/a", 1)]
)
def test_only_what_must_be_there_is_a_rarest_tag(text: str, tag: int) -> None:
    twigs, _, _ = staged(column([text]))
    assert encoder.rarest(twigs).tolist() == [tag]


@pytest.mark.parametrize("form", [list, tuple, iter, pa.array, np.array, pd.Series, pl.Series])
def test_twigs_come_in_many_forms(form: Any) -> None:
    texts = ["//a[b]", "/c"]
    assert is_same(column(form(texts)).twigs, column([parse(text) for text in texts]).twigs)


@pytest.mark.parametrize("given", ["//a", {"//a"}, 7, pa.table({"a": ["//a"]}), parse("//a")])
def test_what_is_no_column_of_twigs_is_refused(given: Any) -> None:
    with pytest.raises(my.ParseError, match="not a column"):
        column(given)


@pytest.mark.parametrize(
    "option", [{"max_trees": 0}, {"parser": "lxml"}, {"max_depth": 1 << 20}, {"malformed": "ask"}]
)
def test_options_that_make_no_sense_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(my.UsageError, match=next(iter(option))):
        my.TwigIndex(options=option)
