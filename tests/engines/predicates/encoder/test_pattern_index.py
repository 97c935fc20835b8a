"""Many patterns on one text, against one after the other."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.engines.predicates.encoder.events.pattern_index import (
    INVERTED,
    WILDCARD,
    find_patterns,
    wildcard_holds,
)
from matchyard.engines.predicates.encoder.layout import Kind
from tests.engines.predicates.vocabularies import Slot, holds, make

LETTERS = st.text(alphabet="abc*\\é", max_size=12)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*")


PIECES = st.lists(st.text(alphabet="abc*\\é", max_size=4), min_size=1, max_size=4)
WILDCARDS = PIECES.map(lambda pieces: "*".join(map(escaped, pieces)))
PATTERNS = st.one_of(
    st.tuples(st.just(0), st.text(alphabet="abc*\\é", max_size=6)),
    st.tuples(st.sampled_from([WILDCARD, WILDCARD | INVERTED]), WILDCARDS),
)


def found(patterns: list[tuple[int, str]], text: str, slot_name: str = "b") -> list[int]:
    other = Slot("a", Kind.PATTERN, [(0, "abc"), (0, "b"), (1, "*")])
    asked = [other, Slot(slot_name, Kind.PATTERN, patterns), Slot("c", Kind.TEXT, ["z"])]
    vocabulary = make(asked)[0]
    data = np.frombuffer(b"abc" + text.encode() + b"abc", np.uint8)
    hits, n_hits = find_patterns(
        vocabulary.gram_slots, vocabulary.gram_patterns, 1, vocabulary.domain_start[1],
        vocabulary.domain_rest, vocabulary.texts.text_start, vocabulary.texts.text,
        data, 3, len(data) - 3, np.empty(1, np.int64),
    )  # fmt: skip
    return hits[:n_hits].tolist()


@given(st.lists(PATTERNS, max_size=12), LETTERS)
def test_hits_are_the_patterns_that_hold(patterns: list[tuple[int, str]], text: str) -> None:
    assert found(patterns, text) == [i for i, one in enumerate(patterns) if holds(*one, text)]


@given(WILDCARDS, LETTERS)
def test_a_wildcard_is_a_regular_expression_of_two_parts(pattern: str, text: str) -> None:
    one, other = (np.frombuffer(part.encode(), np.uint8) for part in (pattern, text))
    is_match = wildcard_holds(one, 0, len(one), other, 0, len(other))
    assert is_match == holds(WILDCARD, pattern, text)


@pytest.mark.parametrize(("pattern", "text", "is_match"), [
    ("a*", "a", True), ("a*", "ba", False), ("*a", "ba", True), ("*", "", True), ("", "", True),
    ("", "a", False), ("a*b*c", "aXbYc", True), ("a*b*c", "acb", False), ("a**b", "ab", True),
    (r"a\*b", "a*b", True), (r"a\*b", "axb", False), (r"\\*", "\\x", True), ("*aab", "aaab", True),
])  # fmt: skip
def test_wildcards_mean_what_they_say(pattern: str, text: str, is_match: bool) -> None:
    assert found([(WILDCARD, pattern)], text) == ([0] if is_match else [])


def test_a_long_text_that_has_a_gram_everywhere_is_tried_once_per_pattern() -> None:
    patterns = [(WILDCARD, "*aaaa*b"), (WILDCARD, "*aaaa*a"), (0, "aaaa"), (WILDCARD, "a*aaaab*")]
    patterns += [(WILDCARD | INVERTED, "*aaaab*"), (WILDCARD, "*a*a*a*a*a*c")]
    found(patterns, "a")  # compiles
    start = perf_counter()
    assert found(patterns, "a" * 400_000) == [1, 2, 4]  # minutes, if tried at each place
    assert perf_counter() - start < 5


@given(st.lists(PATTERNS, max_size=12), st.text(alphabet="ab*", min_size=40, max_size=200))
def test_hits_that_come_often_are_there_once(patterns: list[tuple[int, str]], text: str) -> None:
    assert found(patterns, text) == [i for i, one in enumerate(patterns) if holds(*one, text)]


def test_nothing_before_or_after_the_text_is_read() -> None:
    # Between two "abc": each would be found if the text began earlier or ended later.
    common = [(0, "caba"), (0, "cabax")]  # so that "cabab" is filed under "abab"
    assert found([(0, "cabab"), *common], "ababa") == []
    assert found([(0, "babaab"), (WILDCARD, "*babaab*")], "xbaba") == []


def test_thousands_of_patterns_are_found_by_their_rarest_grams() -> None:
    patterns = [(0, f"common part {i:05d}") for i in range(5000)] + [(WILDCARD, "common*x")]
    text = "this is common part 04321 and common part 00017x"
    assert found(patterns, text) == [17, 4321]
    vocabulary = make([Slot("a", Kind.PATTERN, patterns)])[0]
    counts = vocabulary.gram_slots[1::2][vocabulary.gram_slots[::2] != 0] & 0xFFFFFFFF
    assert counts.max() <= 60  # of 5000 that share most of their grams
