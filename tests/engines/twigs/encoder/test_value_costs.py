"""Documents times tests of values: what they cost is bounded, in signals and bytes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

import matchyard as my
import matchyard.engines.twigs.encoder.encoder as encoding
from matchyard.engines.twigs.encoder.events import intake
from matchyard.engines.twigs.encoder.events.value_tests import Values
from matchyard.engines.twigs.encoder.subscriptions.terms import label_of
from matchyard.engines.twigs.language.model import Source
from matchyard.engines.twigs.oracle.values import satisfies
from tests.engines.twigs.xml_cases import all_tests, vocabulary_of

PARSERS = ["scan", "expat"]
SOURCES = {
    "//a[@x != '{}']": "<a x='0'/>",
    "//a[text() != '{}']": "<a>0</a>",
    "//a[. != '{}']": "<a>0</a>",
    "//a[@x > {}]": "<a x='99'/>",
}


def index_of(twigs: list[str], **options: Any) -> my.TwigIndex:
    index = my.TwigIndex(options=options)
    return index.add_many(twigs, range(len(twigs))).consolidate()


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("twig", SOURCES)
def test_hits_are_counted_per_document_up_to_the_limit(parser: str, twig: str) -> None:
    twigs = [twig.format(i) for i in range(1, 6)]
    # The value of the root is one more; the limit is one below what three elements satisfy.
    most = 15 + 5 * twig.startswith("//a[.")
    document = f"<r>{SOURCES[twig] * 3}</r>"
    roomy, cramped = (index_of(twigs, parser=parser, max_value_hits=most - n) for n in (0, 1))
    assert [len(keys) for keys in roomy.match([document] * 3)] == [5, 5, 5]
    for refuse in (cramped.match, cramped.check):
        with pytest.raises(my.ParseError, match=r'document 1 .* \(option "max_value_hits"\)'):
            refuse([SOURCES[twig], document])
    with pytest.raises(my.ParseError, match="max_value_hits"):
        cramped.explain(document, 1)
    skipping = index_of(twigs, parser=parser, max_value_hits=most - 1, malformed="skip")
    assert [len(keys) for keys in skipping.match([SOURCES[twig], document])] == [5, 0]


def test_a_check_looks_at_every_segment() -> None:
    index = my.TwigIndex(live=True, options={"max_value_hits": 3})
    index.add("//b", 1).consolidate()
    index.add_many([f"//a[@x != '{i}']" for i in range(1, 9)], range(8))
    with pytest.raises(my.ParseError, match="max_value_hits"):
        index.check(["<a x='0'/>"])


@pytest.mark.parametrize("parser", PARSERS)
def test_a_document_takes_memory_up_to_the_limit(parser: str) -> None:
    limit = 1 << 16
    twigs = [f"//a[@x != 't{i}']" for i in range(2000)]
    index = index_of(twigs, parser=parser, max_value_hits=limit)
    index.match(["<a x='0'/>"])
    for n_elements in (30, 3000):
        document = "<r>" + '<a x=""/>' * n_elements + "</r>"
        tracemalloc.start()
        if n_elements == 30:
            index.match([document])
        else:
            with pytest.raises(my.ParseError, match="max_value_hits"):
                index.match([document])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 32 * limit + (4 << 20)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("most_signals", [1, 50, 1 << 22])
def test_a_batch_ends_where_it_has_enough_signals(
    monkeypatch: pytest.MonkeyPatch, parser: str, most_signals: int
) -> None:
    sizes: list[int] = []
    encode = intake.encode

    def encoded(*args: Any) -> Any:
        batch = encode(*args)
        sizes.append(len(batch.signals))
        return batch

    monkeypatch.setattr(intake, "encode", encoded)
    monkeypatch.setattr(encoding, "_MOST_SIGNALS", most_signals)
    index = index_of([f"//a[@x != '{i}']" for i in range(20)], parser=parser)
    rewritten = "<!DOCTYPE a [<!ENTITY e '<a x=\"1\"/>'>]><a>&e;&e;</a>"
    documents = ["<a x='1'/>", "<a/>", rewritten, "<ä x='0'/>", "<a x='30'/>", "<a/>"] * 5
    expected = [19, 0, 19, 0, 20, 0] * 5
    assert [len(keys) for keys in index.match(documents)] == expected
    assert [len(keys) for keys in index.match_unique(documents)] == expected
    assert max(sizes) <= 2 * most_signals + 50  # scanned as they are, and with entities in place
    index.check(documents)
    with pytest.raises(my.ParseError, match="document 17 at"):
        index.match([*documents[:17], "<a>", *documents])
    with pytest.raises(my.ParseError, match="document 17 at"):
        index.check([*documents[:17], "<a>", *documents])


def test_an_explanation_does_not_keep_a_text_for_all_elements_around_it() -> None:
    document = "<a>" * 500 + "xxxx<b/>" * 1000 + "</a>" * 500
    index = index_of(["/a[. = 'y']"])
    index.explain("<a/>", 0)
    tracemalloc.start()
    assert index.explain(document, 0).startswith("no match")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 * len(document)


def test_values_satisfy_what_the_definition_says() -> None:
    tests = all_tests()
    vocabulary = vocabulary_of(["a"], tests)
    values, rows = Values(vocabulary), numbered_tests(vocabulary)
    for text in ("1", "x", "", "ä", "11", " 2.50 ", "-0", "0", "7.0", "1e3", "9" * 400, "\n"):
        for source, name in [(Source.ATTRIBUTE, "x"), (Source.TEXT, ""), (Source.VALUE, "")]:
            found = {
                Source.ATTRIBUTE: lambda text=text: values.leaves_of_attribute("x", text),
                Source.TEXT: lambda text=text: values.leaves_of_text(text),
                Source.VALUE: lambda text=text: values.leaves_of_value(text),
            }[source]()
            expected = [
                -2 - symbol
                for symbol, test in rows
                if (test.source, test.attribute or "") == (source, name) and satisfies(text, test)
            ]
            assert sorted(found.tolist()) == sorted(expected), (text, source)


def numbered_tests(vocabulary: Any) -> list[Any]:
    symbols = range(1 + vocabulary.n_names, vocabulary.n_symbols)
    return [(symbol, label_of(vocabulary, symbol)) for symbol in symbols]
