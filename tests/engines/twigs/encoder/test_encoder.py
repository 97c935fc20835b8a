"""What is joined, cut and carried is the same as what is encoded in one place."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.twigs import encoder
from matchyard.engines.twigs.language import format, parse
from matchyard.engines.twigs.language.model import Comparison

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
    parts = [staged(column(some))[:2] for some in (TEXTS[:200], TEXTS[200:])]
    counts = [encoder.counts(*part) for part in reversed(parts)]
    assert is_same(encoder.merge_counts(counts), vocabulary)
    recoded = [encoder.recode(*part, vocabulary) for part in parts]
    assert is_same(encoder.concatenate(recoded), twigs)
    merged = encoder.merge(parts)
    assert is_same(merged, (twigs, vocabulary))


def test_what_was_not_counted_is_refused() -> None:
    _, vocabulary, _ = staged(column(["//a[@x = 1]"]))
    for text, missing in (("//b", "b"), ("//a[@x = 2]", "03x")):
        with pytest.raises(my.UsageError, match=f"'{missing}.* is not in the vocabulary"):
            encoder.recode(*staged(column([text]))[:2], vocabulary)


@pytest.mark.parametrize(
    ("gone", "left"), [("//a[@x = 'v']", "//b[. > 1]"), ("//a", "//b"), ("//*[@x]", "//*[@y]")]
)
def test_rows_that_are_gone_leave_no_names(gone: str, left: str) -> None:
    twigs, vocabulary, _ = staged(column([gone, left]))
    kept = encoder.keep(twigs, np.array([False, True]))
    assert is_same(encoder.merge([(kept, vocabulary)]), staged(column([left]))[:2])
    assert encoder.merge([(twigs, vocabulary)])[0] is twigs


def test_rows_that_are_put_back_come_before_those_staged_since() -> None:
    first, second = column(TEXTS[:200]), column(TEXTS[150:])
    expected = staged(first, second)
    staging = encoder.Staging()
    staging.add(first, np.arange(first.n_rows))
    taken = staging.take()
    staging.add(second, np.arange(second.n_rows))
    staging.put_back(*taken)
    assert (staging.n_rows, staging.n_parts) == (350, len(expected[0].symbol))
    assert staging.n_names == expected[1].n_symbols - 1
    assert is_same(staging.take(), expected)
    assert (staging.n_rows, staging.n_parts, staging.n_names) == (0, 0, 0)


def test_sizes_are_nodes_with_names_and_distinct_names_and_tests() -> None:
    _, vocabulary, _ = staged(column(["//a[@x][*]/b", "//a[@x > 1]"]))
    assert encoder.sizes(vocabulary) == (3 + 2, 2 + 2)


def test_only_numbers_are_compared_as_numbers() -> None:
    _, vocabulary, _ = staged(column(["//a[@x = 'v'][@x][@y = 2]"]))
    kinds = dict(zip(vocabulary.test.tolist(), vocabulary.number.tolist(), strict=True))
    assert kinds == {Comparison.EXISTS: 0, Comparison.EQUAL: 0, Comparison.NUMBER_EQUAL: 2}


def test_twigs_are_read_back_as_they_were_written() -> None:
    twigs, vocabulary, _ = staged(column(TEXTS))
    again = encoder.parse_column(encoder.texts(twigs, 0, twigs.n_rows, vocabulary), OPTIONS)
    assert again == [parse(text) for text in TEXTS.to_pylist()]


OPERATORS = ["@x", "@x = 'v'", "@x != 'v w'", *(f"@x {op} 2.5" for op in ("=", "!=", "<", "<=", ">", ">="))]  # fmt: skip


@pytest.mark.parametrize("chunk", [2, 1000])
def test_every_row_is_decoded_as_it_was_parsed(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("matchyard.engines.twigs.encoder.subscriptions.decoding._CHUNK", chunk)
    texts = [f"//a[b][{test}][.//*/c]/d | /e" for test in OPERATORS] + ["not(/)", "/", "//a"]
    twigs, vocabulary, _ = staged(column(texts))
    parsed = [parse(text) for text in texts]
    assert [encoder.decode(twigs, row, vocabulary) for row in range(len(texts))] == parsed
    found = encoder.texts(twigs, 1, len(texts), vocabulary).to_pylist()
    assert found == [format(twig) for twig in parsed[1:]]


def test_a_twig_that_cannot_be_read_is_named_by_its_row() -> None:
    with pytest.raises(my.ParseError, match=r"^row 1: not a twig: column 3"):
        column(["//a", "a[1]"])


def test_every_way_to_add_a_twig_obeys_the_limit_on_trees() -> None:
    strict = my.TwigIndex(options={"max_trees": 1})
    large = "//a[" + " or ".join(f"b{i}" for i in range(1025)) + "]"
    lax = my.TwigIndex(options={"max_trees": 1025}).add(large, 1).add_many([large], [2])
    assert len(lax.consolidate()) == 2
    for add in (lambda: strict.add("//a | //b", 1), lambda: strict.add_many(["//a | //b"], [1])):
        with pytest.raises(my.ParseError, match="more than 1 trees"):
            add()


def test_a_file_of_records_obeys_the_limit_on_bytes() -> None:
    index = my.TwigIndex(options={"max_document_bytes": 1000, "malformed": "skip"})
    index.add("/r", key=1).consolidate()
    data = b"<a><r>" + b"x" * (3 << 20) + b"</r></a>"
    with pytest.raises(my.ParseError, match="max_document_bytes"):
        list(index.match_records(io.BytesIO(data), "r"))


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
    ("text", "symbol"), [("/a | /b", -1), ("//*", -1), ("//*[not(a[b])]", -1), ("//a[not(b)]/a", 1)]
)
def test_only_what_must_be_there_is_a_rarest_symbol(text: str, symbol: int) -> None:
    twigs, _, _ = staged(column([text]))
    assert encoder.rarest(twigs).tolist() == [symbol]


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
