"""Predicates as Python functions: a loop over rules, as people write it without an index.

Each predicate becomes the source of one function, so that little but comparisons remains at run time:
prefixes and suffixes go into one `startswith` or `endswith`, equal values into a set, and an event's
texts are case-folded once for all rules.

Events are flat, as in logs: an attribute is a text, a number, a bool or null, and no array or object.
Operators that Sigma's rules do not need are refused.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from matchyard.errors import UsageError

Function = Callable[[Mapping[str, Any], Mapping[str, str]], bool]
_Known = dict[str, Any]  # names that the source of a function refers to

# By kind of test: an expression that reads the value, and is true if there is one.
_READINGS = {
    "folded": "(value := folded.get({})) is not None",
    "text": "isinstance(value := event.get({}), str)",
    "number": "type(value := event.get({})) in (int, float) and value == value",  # no NaN
    "other": "(value := event.get({}, ...)) is not ...",  # `...` is no value of an event
}


def match(functions: Iterable[Function], event: Mapping[str, Any]) -> list[int]:
    """The numbers of the functions that hold for an event.

    >>> from matchyard.engine import find_engine
    >>> parse = find_engine("predicates").language.parse
    >>> rules = ['x suffix ".EXE" ignoring case', "y > 3 and not exists x"]
    >>> functions = [make(parse(rule)) for rule in rules]
    >>> match(functions, {"x": "a.exe"}), match(functions, {"y": 4}), match(functions, {"x": 1})
    ([0], [1], [])
    """
    folded = {name: text.casefold() for name, text in event.items() if isinstance(text, str)}
    return [number for number, holds in enumerate(functions) if holds(event, folded)]


def make(predicate: Any) -> Function:
    """The function of a predicate. Its arguments are an event and the event's case-folded texts."""
    known: _Known = {"inf": math.inf}
    filters = [f"({_filter(one, known)})" for one in predicate.filters]
    function: Function = eval(f"lambda event, folded: ({' or '.join(filters) or False})", known)
    return function


def _filter(one: Any, known: _Known) -> str:
    def all_of(constraints: Sequence[Any]) -> str:
        return " and ".join(_constraint(constraint, known) for constraint in constraints) or "True"

    return " and ".join([all_of(one.holds), *(f"not ({all_of(group)})" for group in one.fails)])


def _constraint(constraint: Any, known: _Known) -> str:
    """An expression that joins the tests with `or`; tests of one kind read the value once."""
    tests: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for op, wanted in constraint.tests:
        tests[_reading(op, wanted)][op.removesuffix("ignore-case").rstrip() or "="].append(wanted)
    parts = []
    for reading, by_op in tests.items():
        tried = [part for op, wanted in by_op.items() for part in _tests(op, wanted, known)]
        is_there = _READINGS[reading].format(repr(constraint.name))
        parts.append(f"({is_there}) and ({' or '.join(tried)})")
    return f"({' or '.join(parts)})"


def _reading(op: str, wanted: Any) -> str:
    if op.endswith("ignore-case"):
        return "folded"
    if isinstance(wanted, str):
        return "text"
    return "other" if wanted is None or isinstance(wanted, bool) else "number"


def _tests(op: str, wanted: list[Any], known: _Known) -> Iterator[str]:
    """Alternative expressions for the values of an operator."""
    if op == "exists":
        yield "True"
    elif op == "=" and isinstance(wanted[0], (bool, type(None))):
        yield from (f"value is {one}" for one in wanted)
    elif op == "=":
        yield f"value in {{{', '.join(map(repr, wanted))}}}"
    elif op in ("prefix", "suffix"):
        yield f"value.{'starts' if op == 'prefix' else 'ends'}with({tuple(wanted)!r})"
    elif op == "contains":
        yield from (f"{one!r} in value" for one in wanted)
    elif op in ("!=", "<", "<=", ">", ">="):
        yield from (f"value {op} {one!r}" for one in wanted)
    elif op in ("wildcard", "cidr"):
        for one in wanted:
            name = f"is_{op}_{len(known)}"
            known[name] = _covers(one) if op == "wildcard" else _is_within(ip_network(one))
            yield f"{name}(value)"
    else:
        raise UsageError(f"no Python function is made of the operator {op!r}")


def _covers(pattern: str) -> Callable[[str], Any]:
    tokens = re.findall(r"\\?.", pattern, re.DOTALL)
    parts = [".*" if token == "*" else re.escape(token[-1]) for token in tokens]
    return re.compile("".join(parts), re.DOTALL).fullmatch


def _is_within(network: IPv4Network | IPv6Network) -> Callable[[str], bool]:
    return partial(_is_address_within, network)


def _is_address_within(network: IPv4Network | IPv6Network, text: str) -> bool:
    try:
        return "%" not in text and ip_address(text) in network
    except ValueError:
        return False
