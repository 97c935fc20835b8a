"""What a subscription may cost: whatever is made of a text is counted before it is made."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

import matchyard as my
from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.predicates import encoder
from matchyard.engines.predicates.encoder.events.intake import column
from matchyard.engines.predicates.encoder.subscriptions.intake import Writer
from matchyard.engines.predicates.language import Constraint, Predicate, Test, field, parse
from matchyard.engines.predicates.language.canonical import _without_longer
from matchyard.engines.predicates.language.normal_form import MAX_TESTS, _Expansion
from matchyard.engines.predicates.language.text import parse_text
from matchyard.errors import ParseError

LONGEST = 8192  # bytes of a text that the documents speak of
MOST_BYTES = 32 << 20  # that it may cost


def pairs(n_pairs: int) -> str:
    return " and ".join(f"(a{i}=1 or b{i}=1)" for i in range(n_pairs))


def longest(make: Callable[[int], str], most: int = 3_000) -> str:
    """The longest text of a kind that is within the limits of length and cost."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        try:
            parse(make(middle)) if len(make(middle)) <= LONGEST else parse("")
            low = middle
        except ParseError:
            high = middle - 1
    return make(low)


def n_tests(predicate: Predicate) -> int:
    groups = [group for one in predicate.filters for group in (one.holds, *one.fails)]
    tests = [test for group in groups for constraint in group for test in constraint.tests]
    return sum(
        len(t.value) if isinstance(t.value, tuple) and t.op != "between" else 1 for t in tests
    )


ADVERSE: dict[str, Callable[[int], str]] = {
    "constraints": lambda n: pairs(8) + "".join(f" and c{j}=1" for j in range(n)),
    "unequal": lambda n: pairs(8) + "".join(f" and c{j}!=1" for j in range(n)),
    "a set": lambda n: pairs(6) + f" and c in {{{','.join(map(str, range(n)))}}}",
    "except": lambda n: pairs(6) + f" and c except {{{','.join(map(str, range(n)))}}}",
    "negated": lambda n: pairs(10) + "".join(f" and not c={j}" for j in range(n)),
    "groups": lambda n: (
        "not (" + " or ".join(f"a{i}=1 and not b{i}=1" for i in range(8))
        + "".join(f" or c={j} and d={j}" for j in range(n)) + ")"
    ),
    "nested": lambda n: (
        "".join(f"(x{i}=1 and (y{i}=1 or " for i in range(20)) + pairs(9)
        + "".join(f" and c{j}=1" for j in range(n)) + "))" * 20
    ),
    "two lists": lambda n: (
        "(" + " or ".join(f"a{j}=1" for j in range(n)) + ") and ("
        + " or ".join(f"b{j}=1" for j in range(n)) + ")"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ADVERSE)
def test_no_text_of_8_kib_takes_more_than_32_mb(kind: str) -> None:
    text = longest(ADVERSE[kind])
    Writer().subscriptions()  # imports what it needs
    tracemalloc.start()
    try:
        predicate = parse(text)
        writer = Writer()
        writer.add(predicate)
        writer.subscriptions()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert MAX_TESTS // 4 < n_tests(predicate) <= MAX_TESTS
    assert peak < MOST_BYTES // 2  # what is built of it has the other half


REFUSED = pairs(14) + "".join(f" and c{j} = 1" for j in range(100))


def as_pattern() -> dict[str, Any]:
    either = [{"$or": [{f"a{i}": [1]}, {f"b{i}": [1]}]} for i in range(14)]
    return {"$and": either, **{f"c{j}": [1] for j in range(100)}}


def as_expression() -> Any:
    either = [(field(f"a{i}") == 1) | (field(f"b{i}") == 1) for i in range(14)]
    return reduce(lambda a, b: a & b, [*either, *(field(f"c{j}") == 1 for j in range(100))])


@pytest.mark.parametrize("form", [REFUSED, as_pattern(), json.dumps(as_pattern()), as_expression()])
def test_filters_times_tests_are_refused_before_they_are_made(form: Any) -> None:
    my.PredicateIndex().add("x = 1", 1)  # imports what it needs
    tracemalloc.start()
    try:
        for take in (parse, lambda one: my.PredicateIndex().add(one, 1)):
            with pytest.raises(ParseError, match=r"to \d+ tests, more than max_tests=65536"):
                take(form)
        with pytest.raises(ParseError, match=r"row 0: the predicate expands to \d+ tests"):
            my.PredicateIndex().add_many([form], [1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


def test_the_limit_of_tests_is_an_option() -> None:
    text = "(a = 1 or b = 1) and c in {1, 2, 3}"
    assert len(parse(text, max_tests=8).filters) == 2
    with pytest.raises(ParseError, match="expands to 8 tests, more than max_tests=7;"):
        parse(text, max_tests=7)
    with pytest.raises(ParseError, match="max_tests=7"):
        my.PredicateIndex(options={"max_tests": 7}).add(text, 1)
    with pytest.raises(my.UsageError, match='option "max_tests" must be at least 1'):
        my.PredicateIndex(options={"max_tests": 0})


def test_what_is_not_multiplied_is_not_limited() -> None:
    listed = ", ".join(map(str, range(100)))
    assert len(parse(f"x in {{{listed}}} and y = 1", max_tests=1).filters) == 1
    assert len(parse(" or ".join(f"x = {i} and y = {i}" for i in range(99)), max_tests=1)[0]) == 99


def test_what_nesting_makes_in_between_is_counted() -> None:
    text = "".join(f"(x{i}=1 and (y{i}=1 or " for i in range(40)) + pairs(3) + "))" * 40
    expansion = _Expansion(parse_text(text), 1_000, 2_000)
    assert n_tests(expansion.predicate()) == 1_204
    assert expansion.n_made == 19_844
    with pytest.raises(ParseError, match=r"makes 19... tests, more than 16 times max_tests=1210"):
        parse(text, max_tests=1_210)


def test_a_condition_that_is_part_of_several_is_expanded_once() -> None:
    x, y = (Constraint(name, (Test("=", 1),)) for name in "xy")
    condition: Any = x
    for _ in range(60):  # 2^60 paths lead to x
        condition = And((Or((condition, y)), Or((condition, y))))
    expansion = _Expansion(Not(condition), 100, 100)
    assert len(expansion.predicate().filters) == 1
    assert len(expansion._known) <= 2 * 4 * 60
    expression = field("x") == 1
    for _ in range(60):
        expression = (expression | (field("y") == 1)) & (expression | (field("y") == 1))
    assert len(parse(expression).filters) == 2


def test_numbers_of_thousands_of_digits_are_not_printed() -> None:
    text = " and ".join(["(a=1 or b=1)"] + [f"(a{i}=1 or b{i}=1)" for i in range(15_000)])
    with pytest.raises(ParseError, match="expands to more than 999999999999999 filters, more than"):
        parse(text)


def test_an_expression_that_is_too_large_is_shown_all_the_same() -> None:
    assert repr(as_expression()) == "<a condition of more filters or tests than are shown>"


class Counted(str):
    n_compared = 0

    def startswith(self, *given: Any) -> bool:
        Counted.n_compared += 1
        return super().startswith(*given)


def test_prefixes_that_others_cover_are_found_in_one_pass() -> None:
    texts = [Counted(f"{i:04}") for i in range(1_000)] + [Counted("0001x"), Counted("0001xy")]
    assert len(_without_longer(sorted(texts))) == 1_000
    assert Counted.n_compared == len(texts) - 1


def test_many_keys_in_an_object_with_a_long_name_take_memory_for_each_once() -> None:
    inner = ",".join(f'"{i}":1' for i in range(4_000))
    text = f'{{"{"k" * 40_000}":{{{inner}}},"a":{{"b":{{"c":2}}}}}}'
    event = column([text], encoder.Options())
    event.rows(0, 1)  # compiles
    tracemalloc.start()
    try:
        read = event.rows(0, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(read.name_text) < 2 * len(text)  # 160 MB, if each key had the name before it
    assert peak < 64 * len(text)


def test_names_longer_than_any_room_are_found() -> None:
    long = "k" * 1_000
    index = my.PredicateIndex().add(f"{long}.a.b = 1", 1).add(f"{long}.a = 1", 2).consolidate()
    assert index.match([{long: {"a": {"b": 1}}}, {long: {"a": 1}}]).to_lists() == [[1], [2]]
    assert index.match([{long + long: {"a": 1}}, {f"{long}.a.b": 1}]).to_lists() == [[], [1]]
