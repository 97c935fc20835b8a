"""Events to entries, against a plain encoder in Python."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from matchyard.engines.predicates.encoder.events.addresses import address
from matchyard.engines.predicates.encoder.events.entries import encode
from matchyard.engines.predicates.encoder.events.pattern_index import INVERTED, WILDCARD
from matchyard.engines.predicates.encoder.layout import Batch, Kind, Vocabulary
from tests.engines.predicates.encoder.test_json import leaves, read_all
from tests.engines.predicates.vocabularies import Slot, codes, make, read

WORDS = ["", "a", "ab", "abc", "Ab", "ABC", "ba", "ß", "SS", "ss", "éa", "aé", "😀", "İ", "İx", "ǰ"]
ADDRESSES = [
    "1.2.3.4",
    "255.255.255.255",
    "0.0.0.0",
    "::1",
    "fe80::1%eth0",
    "::ffff:1.2.3.4",
    "1:2::",
]
TEXTS = st.one_of(st.sampled_from(WORDS + ADDRESSES), st.text(alphabet="abAB*é\\ß", max_size=6))
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 2**53 + 1, 2**53, 2**61, -(2**61) - 1, 2**64 - 1, 1e300, -(2**63)]),
    st.sampled_from([math.inf, -math.inf, -0.0]),
    st.floats(allow_nan=False),
)
VALUES = st.one_of(NUMBERS, TEXTS, st.none(), st.booleans(), st.just(math.nan))
NAMES = ["a", "b", "a.b", "c", "other"]
EVENTS = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(VALUES, st.lists(VALUES, max_size=4), st.dictionaries(st.just("b"), VALUES)),
    max_size=5,
)
FLAGS = [0, WILDCARD, WILDCARD | INVERTED]  # only patterns with wildcards are inverted
PATTERNS = st.tuples(st.sampled_from(FLAGS), st.text(alphabet="abAB*é", max_size=5))


@st.composite
def slots(draw: st.DrawFn) -> list[Slot]:
    found = []
    pairs = st.tuples(st.sampled_from(NAMES[:4]), st.sampled_from(list(Kind)))
    for name, kind in draw(st.lists(pairs, min_size=1, max_size=12, unique=True)):
        constants: list[Any] = []
        if kind == Kind.NUMBER:
            constants = draw(st.lists(NUMBERS, max_size=4))
        elif kind >= Kind.PATTERN:
            constants = draw(st.lists(PATTERNS, min_size=1, max_size=4, unique=True))
            if kind == Kind.FOLDED_PATTERN:
                constants = [(flags, text.casefold()) for flags, text in constants]
        elif kind >= Kind.TEXT:
            asked = [read(kind, text) for text in draw(st.lists(TEXTS, max_size=4))]
            constants = [text for text in asked if text is not None]
        found.append(Slot(name, kind, constants, draw(st.booleans())))
    return found


def entries(batch: Batch, row: int) -> Counter[tuple[int, int]]:
    start, end = batch.event_start[row], batch.event_start[row + 1]
    slots = batch.slots[start:end]
    assert np.all(np.diff(slots) >= 0)
    return Counter(zip(slots.tolist(), batch.codes[start:end].tolist()))


def expected(
    event: dict[str, Any], slots: list[Slot], texts: list[str]
) -> Counter[tuple[int, int]]:
    return Counter(
        (number, code)
        for name, value in leaves(event)
        for number, slot in enumerate(slots)
        if slot.name == name
        for code in codes(slot, value, texts)
    )


@given(slots(), st.lists(EVENTS, max_size=4))
def test_entries_are_those_of_the_plain_encoder(
    asked: list[Slot], events: list[dict[str, Any]]
) -> None:
    vocabulary, slots, texts = make(asked)
    for form in (events, [json.dumps(event) for event in events]):
        found = read_all(form)
        whole = encode(found, vocabulary)
        for row, event in enumerate(events):
            assert entries(whole, row) == expected(event, slots, texts)
            alone = encode(found.rows(row, row + 1), vocabulary)
            assert entries(alone, 0) == entries(whole, row)


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind >= Kind.TEXT])
def test_every_way_to_read_a_text_is_that_of_python(kind: Kind, is_ordered: bool) -> None:
    asked: list[Any] = [read(kind, text) for text in WORDS + ADDRESSES]
    asked = [text for text in dict.fromkeys(asked) if text is not None]
    if kind >= Kind.PATTERN:
        asked = [(flags, text) for text in asked for flags in FLAGS]
    vocabulary, slots, texts = make([Slot("a", kind, asked, is_ordered)])
    values = [*ADDRESSES, *WORDS, *(one + other for one in WORDS for other in WORDS)]
    batch = encode(read_all([{"a": value} for value in values]), vocabulary)
    for row, value in enumerate(values):
        assert entries(batch, row) == expected({"a": value}, slots, texts)


def test_an_event_of_very_many_values_is_encoded() -> None:
    asked = [Slot("a", Kind.PRESENT, []), Slot("a", Kind.NUMBER, [3]), Slot("b", Kind.TEXT, ["x"])]
    asked.append(Slot("b", Kind.PATTERN, [(1, "*"), (0, "x"), (3, "y")]))
    vocabulary, slots, texts = make(asked)
    event = {"b": ["x", "z" * 999] * 200, "a": list(range(500))}
    batch = encode(read_all([event, {}, event]), vocabulary)
    for row in (0, 2):
        assert entries(batch, row) == expected(event, slots, texts)
    assert batch.event_start[1] == batch.event_start[2]


def test_places_come_along() -> None:
    vocabulary: Vocabulary = make([Slot("a.b", Kind.NUMBER, [1]), Slot("c", Kind.PRESENT, [])])[0]
    batch = encode(read_all([{"c": 1, "a": [{"b": 1}, {"b": 2}, {"x": 1}]}]), vocabulary)
    assert batch.slots.tolist() == [0, 0, 1]
    assert batch.elements.tolist() == [1, 2, 0]
    assert batch.element_array[1] == batch.element_array[2]


@given(st.one_of(
    st.ip_addresses().map(str), st.text(alphabet="0123456789abF:.%/", max_size=20),
    st.lists(st.sampled_from(["::", ":", "1", "ffff", "0", "1.2.3.4", "00001", "%e", "256", "."])).map("".join),
    st.ip_addresses(v=6).map(lambda one: one.exploded.upper()),
    st.builds("{}%{}".format, st.ip_addresses(), st.text(alphabet="e0%/é:. \0", max_size=4)),
))  # fmt: skip
@example("01.2.3.4")
@example("1:2:3:4:5:6:7::")
@example("1:2:3:4:5:6:7:8::")
@example("1:2:3:4:5:6:1.2.3.4")
@example("1:2:3:4:5:6:7:1.2.3.4")
@example("::1%")
@example("fe80::1%eth0")
@example("1.2.3.4%eth0")
@example("::1%a%b")
@example("::1%a/64")
@example("0000:0000:0000:0000:0000:ffff:255.255.255.255%" + "z" * 50)
@example("%eth0")
def test_addresses_are_those_that_python_takes(text: str) -> None:
    out = np.empty(33, np.uint8)
    data = np.frombuffer(text.encode(), np.uint8)
    n_bytes = address(data, 0, len(data), out)
    assert bytes(out[:n_bytes]).decode() == (read(Kind.ADDRESS, text) or "")
