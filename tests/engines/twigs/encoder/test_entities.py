"""Entities mean the same to both parsers and to every verb, and what they cost has a bound."""

from __future__ import annotations

import io
import itertools
import random
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest

import matchyard as my
from matchyard.engines.twigs.encoder.events.intake import column, read
from matchyard.engines.twigs.encoder.scanner import prolog
from matchyard.engines.twigs.language.options import Options
from matchyard.engines.twigs.xml import entities
from matchyard.engines.twigs.xml.entities import MOST_NESTED
from tests.engines.twigs.xml_cases import all_tests, vocabulary_of

VOCABULARY = vocabulary_of(["a", "b"], all_tests())
READINGS: list[dict[str, Any]] = [
    {},
    {"undefined_entities": "skip"},
    {"max_entity_expansion": 12},
    {"max_entity_expansion": 12, "undefined_entities": "skip"},
]


def answers(documents: list[bytes], vocabulary: Any = VOCABULARY, **options: Any) -> list[Any]:
    """The signals of each document, or why it is refused."""
    batch, faults = read(column(documents, Options(**options)), vocabulary)
    signals = [
        batch.signals[start:end].tolist()
        for start, end in itertools.pairwise(batch.signal_start.tolist())
    ]
    return [str(faults[i]) if i in faults else signals[i] for i in range(len(documents))]


def compare(documents: list[bytes]) -> None:
    for options in READINGS:
        found = answers(documents, parser="scan", **options)
        expected = answers(documents, parser="expat", **options)
        for document, ours, theirs in zip(documents, found, expected, strict=True):
            assert ours == theirs, (document, options)


DECLARATIONS = [
    *("<!ENTITY e '1'>", "<!ENTITY e SYSTEM 'x'>", "<!ENTITY e PUBLIC 'p' 'x'>", ""),
    *("<!ENTITY e SYSTEM 'x' NDATA gif>", "<!ENTITY e '&u;'>", "<!ENTITY e '&t;'>"),
    *("<!ENTITY e '<b>1</b>'>", "<!ENTITY e '</a><a>'>", "<!ENTITY e '\" y=\"'>"),
]
AROUND = [
    *("{}", "{}<!ENTITY t 'x&e;'>", "{}<!ENTITY t '<b x=\"&e;\"/>'>", "<!ENTITY t '<b>&e;</b>'>{}"),
    *("<!ENTITY % p SYSTEM 'q'>%p;{}", "{}%p;<!ENTITY t 'x&e;'>", "{}<!ATTLIST a x CDATA '&e;'>"),
    *("{}<!ENTITY t '<![CDATA[&e;]]>'>", "{}<!ENTITY t '<!-- &e; -->'>", "{}<!ENTITY t '<&e;/>'>"),
]
OUTSIDE = ["", " SYSTEM 'x.dtd'"]
ALONE = ["", "<?xml version='1.0' standalone='yes'?>"]
BODIES = [
    *("<a>&e;</a>", "<a>&t;</a>", "<a x='&e;'/>", "<a x='&t;'/>", "<a/>", "<a>&e;<b>&t;</b></a>"),
    *("<a><![CDATA[&e;]]><!-- &e; --></a>", "<a>&u;</a>", "<a x='&u;'/>"),
]


def test_all_documents_of_a_small_grammar_are_read_as_by_expat() -> None:
    documents = [
        f"{alone}<!DOCTYPE a{outside} [{around.format(declared)}]>{body}".encode()
        for alone, outside, around, declared, body in itertools.product(
            ALONE, OUTSIDE, AROUND, DECLARATIONS, BODIES
        )
    ]
    documents += [f"<!DOCTYPE a{outside}>{body}".encode() for outside in OUTSIDE for body in BODIES]
    compare(documents)


NAMES = ["e", "f", "g", "u"]
VALUES = [
    *("x", "1", " ", "&#10;", "&#38;", "&#60;", "&#38;#60;", "&amp;", "<b/>", "<b>", "</b>", "]]"),
    *(
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "&#13;",
        "'",
        '"',
        " y='1",
        "/>",
        "<b x='",
        "p;",
        "&#38;am",
    ),
]


def value_of(pick: random.Random) -> str:
    parts = [
        pick.choice(VALUES) if pick.random() < 0.5 else f"&{pick.choice(NAMES)};"
        for _ in range(pick.randrange(5))
    ]
    return "".join(parts).replace('"', "")


def declaration_of(pick: random.Random) -> str:
    kind, name, value = pick.randrange(12), pick.choice(NAMES[:3]), value_of(pick)
    if kind == 0:
        return f"<!ENTITY {name} SYSTEM 'x'>"
    if kind == 1:
        return pick.choice(["<!ENTITY % p 'q'>", "%p;", f"<!ENTITY {name} SYSTEM 'x' NDATA gif>"])
    if kind == 2:
        return f'<!ATTLIST {pick.choice("ab")} x CDATA "{value}">'
    return f'<!ENTITY {name} "{value}">'


def document_of(pick: random.Random) -> bytes:
    declared = "".join(declaration_of(pick) for _ in range(pick.randrange(1, 6)))
    references = [f"&{pick.choice(NAMES)};" for _ in range(3)]
    attribute = pick.choice(["", "", f" x='{references[0]}'"])
    body = f"<a{attribute}>{pick.choice(['', references[1]])}<b/>{references[2]}</a>"
    return f"{pick.choice(ALONE)}<!DOCTYPE a{pick.choice(OUTSIDE)} [{declared}]>{body}".encode()


def test_documents_with_entities_at_random_are_read_as_by_expat() -> None:
    pick = random.Random(1)
    compare([document_of(pick) for _ in range(1500)])


@pytest.mark.slow
def test_many_documents_with_entities_at_random_are_read_as_by_expat() -> None:
    pick = random.Random(2)
    for _ in range(10):
        compare([document_of(pick) for _ in range(2000)])


REFUSED = [
    '<!DOCTYPE a [<!ENTITY e SYSTEM "x">]><a>&e;</a>',
    '<!DOCTYPE a [<!ENTITY e SYSTEM "x"><!ENTITY t "x&e;">]><a>&t;</a>',
    '<!DOCTYPE a SYSTEM "x"><a>&e;</a>',
    '<!DOCTYPE a SYSTEM "x"><a x="&e;"/>',
    '<!DOCTYPE a SYSTEM "x" [<!ATTLIST a x CDATA "&e;">]><a/>',
    '<!DOCTYPE a [<!ENTITY % p SYSTEM "x">%p;<!ENTITY e "1">]><a>&e;</a>',
]


@pytest.mark.parametrize("parser", ["scan", "expat"])
@pytest.mark.parametrize("document", REFUSED)
def test_every_verb_refuses_or_skips_what_is_not_declared(parser: str, document: str) -> None:
    strict, lax = (
        my.TwigIndex(options={"parser": parser, "undefined_entities": how}).add("/a", 1)
        for how in ("refuse", "skip")
    )
    strict.consolidate()
    for refuse in (strict.match, strict.check, strict.parse_event):
        with pytest.raises(my.ParseError, match=r"undefined entity|external entity"):
            refuse(document)
    with pytest.raises(my.ParseError, match=r"undefined entity|external entity"):
        strict.explain(document, 1)
    assert lax.consolidate().match([document]).to_lists() == [[1]]
    lax.check([document])
    assert lax.parse_event(document) == document
    assert lax.explain(document, 1).startswith("match")


@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_records_refuse_or_skip_what_is_not_declared(parser: str) -> None:
    file = b'<!DOCTYPE r [<!ENTITY e SYSTEM "x">]><r><a>&e;</a></r>'
    found = []
    for how in ("refuse", "skip"):
        index = my.TwigIndex(options={"parser": parser, "undefined_entities": how}).add("/a", 1)
        index.consolidate()
        try:
            found += [one.to_lists() for _, one in index.match_records(io.BytesIO(file), "a")]
        except my.ParseError as error:
            found.append("not fetched" in str(error))
    assert found == [True, [[1]]]


def test_entities_within_each_other_have_a_limit_in_every_place() -> None:
    """Expat calls itself for each, until the process ends: so it must not be asked."""
    chain = "".join(f'<!ENTITY e{i} "&e{i + 1};">' for i in range(100_000))
    code = f"""
import matchyard as my
chain = {chain!r}
for place in ('<!ATTLIST a x CDATA "&e0;">]><a/>', ']><a x="&e0;"/>', ']><a>&e0;</a>'):
    for parser in ("scan", "expat"):
        try:
            my.TwigIndex(options={{"parser": parser}}).match(["<!DOCTYPE a [" + chain + place])
        except my.ParseError as error:
            print("too many entities within each other" in str(error))
"""
    told = subprocess.run(
        [sys.executable, "-"], check=True, input=code, capture_output=True, text=True
    )
    assert told.stdout.split() == ["True"] * 6, told.stderr
    for n, is_refused in ((MOST_NESTED - 1, False), (MOST_NESTED, True)):
        chain = "".join(f'<!ENTITY e{i} "&e{i + 1};">' for i in range(n)) + f"<!ENTITY e{n} 'x'>"
        document = f"<!DOCTYPE a [{chain}]><a>&e0;</a>".encode()
        for parser in ("scan", "expat"):
            assert isinstance(answers([document], parser=parser)[0], str) == is_refused


class CountedPattern:
    """A regular expression that counts the characters it is asked to look through."""

    def __init__(self, pattern: Any) -> None:
        self.pattern, self.n_characters = pattern, 0

    def __getattr__(self, name: str) -> Any:
        def ask(*args: Any) -> Any:
            self.n_characters += len(args[-1])
            return getattr(self.pattern, name)(*args)

        return ask


def test_tags_in_an_entity_do_not_each_read_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedPattern(entities.REFERENCE)
    monkeypatch.setattr(entities, "REFERENCE", counted)
    tags = "<b x='1'/>" * 2000
    document = f'<!DOCTYPE a SYSTEM "x" [<!ENTITY e "{tags}">]><a>&e;</a>'.encode()
    assert len(answers([document], parser="expat")[0]) > 4000
    assert counted.n_characters < 5 * len(document)


def peak_of(documents: list[bytes]) -> int:
    """Bytes allocated at once while documents are read, for the second time."""
    vocabulary = vocabulary_of(["a", "b"])
    answers(documents, vocabulary)
    tracemalloc.start()
    read(column(documents, Options()), vocabulary)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_entities_that_are_not_used_take_little_memory() -> None:
    many = "".join(f"<!ENTITY e{i} '&l;'>" for i in range(999))
    document = f"<!DOCTYPE a [<!ENTITY l '{'x' * 20_000}'>{many}]><a/>".encode()
    assert peak_of([document]) < 40 * len(document) + (1 << 20)


@pytest.mark.parametrize("first", ["x" * 99, f"<b>{'x' * 99}</b>"], ids=["text", "tags"])
def test_documents_of_a_batch_share_the_room_for_entities(
    monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    doubled = "".join(f"<!ENTITY e{i + 1} '&e{i};&e{i};'>" for i in range(8))
    document = f"<!DOCTYPE a [<!ENTITY e0 '{first}'>{doubled}]><a>&e8;</a>".encode()
    peaks = []
    for n_bytes in (1 << 17, 1 << 30):
        monkeypatch.setattr(prolog, "_SHARED_BYTES", n_bytes)
        peaks.append(peak_of([document] * 64))
    assert 3 * peaks[0] < peaks[1]
