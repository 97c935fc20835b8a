"""What a vocabulary holds: slots, modes, texts in order, and exact numbers."""

import math

import numpy as np
import pytest

from matchyard.engines.predicates import encoder
from matchyard.engines.predicates.encoder.layout import Kind, Mode, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions.coding import pair_of, word_of
from matchyard.engines.predicates.encoder.subscriptions.operators import (
    alternatives_of,
    number_end,
    read_number,
    write,
)
from matchyard.engines.predicates.language import Constraint, field, make_test, parse
from tests.engines.predicates.encoder.test_subscription_intake import coded, decoded
from tests.engines.predicates.number_pairs import split

NUMBERS = [
    0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**61, 2**61 + 1, -(2**61) - 1, 2**62 + 1, 2**63 - 1,
    2**63 - 512, 2**63 - 513, -(2**63), -(2**63) + 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 1024,
    0.5, -0.5, 5e-324, -5e-324, 1e300, math.inf, -math.inf, 2.0**64, 0.1,
]  # fmt: skip


def modes(vocabulary: Vocabulary, kind: Kind = Kind.NUMBER) -> list[int]:
    return vocabulary.mode[vocabulary.kind == kind].tolist()


@pytest.mark.parametrize("number", NUMBERS)
def test_words_and_pairs_stand_for_the_same_number(number: float) -> None:
    form, word = number_end(number)
    assert read_number(form, word) == number
    assert pair_of(int(form), np.int64(word)) == split(number)
    assert word_of(*split(number)) == (form, word)


def test_numbers_compare_exactly_in_every_mode() -> None:
    for constants in (NUMBERS[:3], [0.5, -0.5, 3, math.inf], NUMBERS):
        tests = [(op, c) for c in constants for op in ("=", "!=", "<", "<=", ">", ">=")]
        filters, vocabulary = coded([parse(Constraint("x", (make_test(*t),))) for t in tests])
        batch = encoder.encode(
            encoder.column([{"x": n} for n in NUMBERS], encoder.Options()), vocabulary
        )
        assert (np.diff(batch.event_start) == 1).all()
        holds = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__",
                 ">=": "__ge__"}  # fmt: skip
        for event, number in enumerate(NUMBERS):
            code = batch.codes[event]
            for row, (op, constant) in enumerate(tests):
                pieces = slice(*filters.piece_start[[row, row + 1]])
                found = ((filters.low[pieces] <= code) & (code <= filters.high[pieces])).any()
                exact = getattr(_Exact(number), holds[op])(_Exact(constant))
                assert found == exact, (number, op, constant)


class _Exact(tuple):  # type: ignore[type-arg]
    """A number as a pair that compares exactly."""

    def __new__(cls, number: float) -> "_Exact":
        return tuple.__new__(cls, split(number))


@pytest.mark.parametrize(
    ("rules", "mode"),
    [
        (["x = 1", f"x > {2**61}"], Mode.INTEGER),
        ([field("x") > math.inf, "x < 3"], Mode.INTEGER),
        (["x = 1.5", "x > 1", f"x = {2**53}"], Mode.FLOAT),
        (["x = 1.5", "x >= 2.5", "x < 1.5"], Mode.FLOAT),
        (["x = 1.5", f"x = {2**53 + 1}"], Mode.RANKED),
        ([f"x = {2**61 + 1}"], Mode.RANKED),
        (["x > 0.1", f"x >= {math.nextafter(0.1, 1)!r}"], Mode.RANKED),  # one code for two
        ([f"x in (0.1, {math.nextafter(0.1, 1)!r})"], Mode.RANKED),  # no code would be left
    ],
)
def test_the_mode_of_numbers_is_the_first_that_is_exact(rules: list[object], mode: Mode) -> None:
    filters, vocabulary = coded(rules)
    assert modes(vocabulary) == [mode]
    assert decoded(filters, vocabulary) == [parse(rule) for rule in rules]
    assert (filters.low <= filters.high).all()


@pytest.mark.parametrize(
    ("rule", "is_ordered"),
    [
        ('x = "a"', 0), ('x != "a"', 0), ('x in {"a", "b"}', 0), ('x > "a"', 1), ('x < "a"', 1),
        ('x <= "a"', 1), ('x prefix "a"', 1), ('x in {!= "a", > "b"}', 1), ('x in ["a", "b"]', 1),
    ],
)  # fmt: skip
def test_texts_are_ordered_where_that_is_asked(rule: str, is_ordered: int) -> None:
    assert modes(coded([rule])[1], Kind.TEXT) == [is_ordered]


def test_anything_but_texts_asks_for_no_order() -> None:
    rule = {"x": [{"anything-but": ["b", "a", 3]}]}
    filters, vocabulary = coded([rule])
    assert modes(vocabulary, Kind.TEXT) == [0]
    assert vocabulary.kind.tolist() == [Kind.NUMBER, Kind.OTHER, Kind.TEXT]
    assert decoded(filters, vocabulary) == [parse(rule)]


def test_texts_are_in_order_of_their_bytes_and_each_is_there_once() -> None:
    _, vocabulary = coded(
        ['x = "é"', 'y prefix "ab"', 'x = "z"', 'x = "ac"', 'x = "\U0001f600"', 'x = "\uffff"']
    )
    texts = vocabulary.texts.to_arrow().to_pylist()
    assert texts == sorted({"é", "ab", "ac", "z", "\U0001f600", "\uffff"}, key=str.encode)


def test_what_no_row_uses_is_gone_after_joining() -> None:
    filters, vocabulary = coded(['gone = "old"', "x = 1"])
    kept = encoder.keep(filters, np.array([False, True]))
    _, joined = encoder.merge([(kept, vocabulary), coded(["x = 2"])])
    assert joined.names.to_arrow().to_pylist() == ["x"]
    assert joined.texts.n_names == 0


def test_wildcards_of_one_pattern_are_told_apart() -> None:
    wildcards = ("", r"a\\", "|b", r"\*|", "c")
    found = []
    write("not wildcard", wildcards, lambda text: found.append(text) or 0)  # type: ignore[func-returns-value]
    assert alternatives_of(found[0]) == wildcards


def test_a_predicate_of_ten_thousand_filters_is_read_back() -> None:
    rule = parse(" or ".join(f"x = {i} and y = {-i}" for i in range(10_000)))
    filters, vocabulary = coded([rule])
    assert len(filters.filter_start) == 10_001
    assert decoded(filters, vocabulary) == [rule]
