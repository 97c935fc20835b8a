"""Several tests of one attribute as canonical constraints; see `canonical`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from matchyard.engines.predicates.language.canonical import ALONE, rank, sort_key
from matchyard.engines.predicates.language.model import Constraint, Test
from matchyard.errors import ParseError


def alternatives(name: str, tests: Iterable[Test]) -> list[Constraint]:
    """The canonical constraints, one of which must hold, of alternative tests of an attribute."""
    tests = list(tests)
    if len(tests) == 1 and tests[0].op != "except":
        return [Constraint(name, (tests[0],))]
    if not tests:
        raise ParseError(f"no test on {name!r}; expected at least one, such as > 30")
    if any(test.op == "exists" for test in tests):
        return [Constraint(name, (Test("exists", None),))]
    alone = {sort_key(t): t for test in tests for t in _expand(test) if t.op in ALONE}
    rest = _unite([t for test in tests for t in _expand(test) if t.op not in ALONE])
    kept = [Constraint(name, (alone[key],)) for key in sorted(alone)]
    if rest:
        kept.append(Constraint(name, rest))
    return kept


def _expand(test: Test) -> list[Test]:
    """Replace an `except` of all types by comparisons: their pieces are the same."""
    if test.op == "except":
        numbers = [v for v in test.value if isinstance(v, (int, float)) and not isinstance(v, bool)]
        texts = [v for v in test.value if isinstance(v, str)]
        if numbers and texts and len(test.value) == len(numbers) + len(texts) + 3:
            return _around(numbers) + _around(texts)
    return [test]


def _around(values: Sequence[Any]) -> list[Test]:
    """The tests for all but some sorted values."""
    inner = [Test("between", (a, True, b, True)) for a, b in pairwise(values)]
    return [Test("<", values[0]), *inner, Test(">", values[-1])]


def _unite(tests: list[Test]) -> tuple[Test, ...]:
    """Tests in canonical form: distinct, in order, `<` and `>` of one value as `!=`."""
    kept = {sort_key(test): test for test in tests}
    for test in tests:
        if test.op == "!=" or (test.op == "<" and (">", *rank(test.value)) in kept):
            for op in "<>":
                kept.pop((op, *rank(test.value)), None)
            kept[("!=", *rank(test.value))] = Test("!=", test.value)
    return tuple(kept[key] for key in sorted(kept))
