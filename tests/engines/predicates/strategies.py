"""Predicates and events for Hypothesis, from small alphabets so that they often meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    alternatives,
    make_test,
    parse,
    successor,
)

PLAIN_NAMES = ["x", "y", "a", "deep"]  # `a` is a value, an object or an array; so is `deep`
DOTTED_NAMES = ["a.x", "a.y", "b.x", "b.y", "deep.a.x", "deep.a.y", "deep.z"]
NAMES = [*PLAIN_NAMES, *DOTTED_NAMES]

WHOLE = [
    0,
    1,
    2,
    3,
    -1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**61,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
]
FLOATS = [-0.0, 0.5, 1.0, 1.5, 2.5, 1e-300, 1e19, 2.0**53, 2.0**63, float("inf"), float("-inf")]
LONG = "ab" * 700
TEXTS = [
    "", "a", "A", "ab", "aB", "abc", "b", "ba", "bab", "é", "É", "ß", "SS", "straße", "日本", "日",
    "\U0001f600", "\U0010ffff", "a\U0010ffff", "\ud7ff", "a*b", "a\\b", "a\0", "10.0.0.1", "10.1.2.3",
    "192.168.0.255", "2001:db8::1", "2001:db8::2%eth0", "10.0.0.1%a", "::ffff:10.0.0.1", "010.0.0.1", LONG, LONG + "a",
]  # fmt: skip
PATTERNS = ["*", "a*", "*b", "a*b", "*a*b*", r"a\*b", r"a\\*", "É*", "", "ab", "*" + LONG, "日*"]
NETWORKS = ["10.0.0.0/8", "10.0.0.1/32", "0.0.0.0/0", "192.168.0.0/24", "2001:db8::/32", "::/0"]

numbers = st.sampled_from([*WHOLE, *FLOATS]) | st.integers(-4, 4)
texts = st.sampled_from(TEXTS) | st.text("aAbBé", max_size=3)
scalars = numbers | texts | st.booleans() | st.none()
names = st.sampled_from(NAMES)


@st.composite
def intervals(draw: st.DrawFn, of: st.SearchStrategy[Any] = numbers | texts) -> Any:
    """The value of a `between` test."""
    low = draw(of)
    high = draw(of.filter(lambda value: isinstance(value, str) == isinstance(low, str)))
    if isinstance(low, str) and draw(st.booleans()):
        high = successor(low) or high  # which is a prefix
    low, high = min(low, high), max(low, high)
    if low == high:
        return (low, False, high, False)
    return (low, draw(st.booleans()), high, draw(st.booleans()))


def _listed(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=1, max_size=3).map(tuple)


_ignoring = st.sampled_from(["", " ignore-case"])
_tests = st.one_of(
    st.tuples(st.just("="), scalars),
    st.tuples(st.sampled_from(["!=", "<", "<=", ">", ">="]), numbers | texts),
    st.tuples(st.just("!="), st.booleans()),
    st.tuples(st.just("between"), intervals()),
    st.tuples(st.sampled_from(["prefix", "suffix", "contains", "ignore-case"]), texts),
    st.tuples(_ignoring.map("prefix{}".format), texts),
    st.tuples(_ignoring.map("suffix{}".format), texts),
    st.tuples(_ignoring.map("contains{}".format), texts),
    st.tuples(_ignoring.map("wildcard{}".format), st.sampled_from(PATTERNS)),
    st.tuples(st.just("cidr"), st.sampled_from(NETWORKS)),
    st.tuples(st.just("exists"), st.none()),
    st.tuples(st.just("except"), _listed(scalars)),
    st.tuples(st.sampled_from(["not prefix", "not suffix"]), _listed(texts.filter(bool))),
    st.tuples(st.just("not wildcard"), _listed(st.sampled_from(PATTERNS))),
    st.tuples(st.just("not ignore-case"), _listed(texts)),
)


@st.composite
def constraints(draw: st.DrawFn, of: st.SearchStrategy[str] = names) -> Constraint:
    """A constraint with one to three tests, not always as it is kept."""
    tests = draw(st.lists(_tests, min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 3]))))
    return Constraint(draw(of), tuple(make_test(*test) for test in tests))


@st.composite
def predicates(draw: st.DrawFn, max_filters: int = 3, max_constraints: int = 3) -> Predicate:
    """Any predicate, of all operators, as `parse` gives it; now and then an empty one."""
    some = constraints().map(lambda one: alternatives(*one)[-1])  # so that filters stay few
    group = st.lists(some, min_size=1, max_size=2).map(tuple)
    one = st.builds(
        Filter,
        st.lists(some, max_size=max_constraints).map(tuple),
        st.one_of(st.just(()), st.just(()), st.lists(group, max_size=2).map(tuple)),
    )
    filters = draw(
        st.lists(one, min_size=draw(st.sampled_from([0, 1, 1, 1])), max_size=max_filters)
    )
    return parse(Predicate(tuple(filters)))


@st.composite
def interval_predicates(draw: st.DrawFn, max_constraints: int = 4) -> Predicate:
    """Conjunctions of single intervals of numbers, at most one for a name, none of them dotted."""
    chosen = draw(
        st.lists(st.sampled_from(PLAIN_NAMES), min_size=1, max_size=max_constraints, unique=True)
    )
    held = []
    for name in chosen:
        test = make_test("between", draw(intervals(numbers)))
        held.append(Constraint(name, (test,)))
    return parse(Filter(tuple(held)))


def leaves() -> st.SearchStrategy[Any]:
    """What an attribute may have as its value, within an array or not."""
    return scalars | st.just(float("nan"))


def attributes() -> st.SearchStrategy[Any]:
    """A value, or an array of values and of arrays of them."""
    many = st.lists(leaves(), max_size=3)
    return leaves() | leaves() | many | st.lists(leaves() | many, max_size=3)


def _objects(inner: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """An object, an array of them (with other values among them), or something else."""
    one = st.fixed_dictionaries({}, optional=inner)
    mixed = st.lists(one | one | leaves() | st.lists(one, max_size=2), max_size=3)
    return st.one_of(one, st.lists(one, max_size=3), mixed, attributes())


def events() -> st.SearchStrategy[dict[str, Any]]:
    """Any event: values of all types, arrays, arrays of objects within each other, dotted keys."""
    pair = {"x": attributes(), "y": attributes()}
    deep = {"a": _objects(pair), "z": attributes()}
    return st.fixed_dictionaries(
        {},
        optional={
            "x": attributes(),
            "y": attributes(),
            "a": _objects(pair),
            "b": _objects(pair),
            "deep": _objects(deep),
            "a.x": attributes(),
            "unnamed": leaves(),
        },
    )


def flat_events() -> st.SearchStrategy[dict[str, Any]]:
    """Events without objects and arrays."""
    return st.dictionaries(st.sampled_from(PLAIN_NAMES), leaves(), max_size=4)
