"""WORDS: a subscription is a condition on named attributes, an event a JSON-like object.

    text      area = "north" and temp > 30 or wind > 20       see `text`
    objects   (field("area") == "north") & (field("temp") > 30)
    patterns  {"area": ["north"], "temp": [{"numeric": [">", 30]}]}, or JSON text of one: `patterns_json`

All forms become a `Predicate`: a disjunction of filters (`normal_form`) with constraints in canonical
form (`canonical`). Predicates with the same meaning in different forms therefore compare equal.
"""

from __future__ import annotations

from typing import Any

from matchyard.engines.predicates.language.canonical import refused
from matchyard.engines.predicates.language.events import check_event, finite, read_json, whole
from matchyard.engines.predicates.language.expressions import Expression, Field
from matchyard.engines.predicates.language.formatting import format_predicate
from matchyard.engines.predicates.language.model import Constraint, Filter, Predicate
from matchyard.engines.predicates.language.normal_form import (
    MAX_FILTERS,
    MAX_TESTS,
    Condition,
    condition_of,
    normalise,
)
from matchyard.engines.predicates.language.patterns_json import once, parse_rule
from matchyard.engines.predicates.language.text import parse_text
from matchyard.errors import MatchyardError, shorten

Subscription = Predicate
Event = dict[str, Any]


def parse(value: Any, max_filters: int = MAX_FILTERS, max_tests: int = MAX_TESTS) -> Predicate:
    """The predicate that a text, pattern, expression or predicate stands for.

    >>> format(parse("temp > 30.0 and area in {'north'}"))
    'area = "north" and temp > 30'
    """
    return normalise(_condition(value), max_filters, max_tests)


def parse_event(value: Any) -> Event:
    """The event that a dict or JSON text stands for.

    >>> parse_event('{"temp": 31}')
    {'temp': 31}
    """
    return check_event(value)


def format(predicate: Predicate) -> str:
    """A predicate as text, which parses back to an equal one.

    >>> format(parse({"temp": [{"numeric": [">", 30]}, "hot"]}))
    'temp in {"hot", > 30}'
    """
    return format_predicate(predicate)


def _condition(value: Any) -> Condition:
    try:
        if isinstance(value, str):
            text = str.__str__(value)  # a user's subclass may have its own __str__
            return parse_text(text) if text.lstrip()[:1] != "{" else parse_rule(_rule(text))
        if isinstance(value, Expression):
            return value.condition
        if isinstance(value, (dict, Predicate, Filter, Constraint)):
            return _of_object(value)
    except RecursionError:
        message = "not a predicate: {found}; for example: {example}"
        fewer = "fewer conditions within each other"
        raise refused(message, "nested too deeply", fewer) from None
    if isinstance(value, Field):
        message = "not a predicate: {found}; expected {expected}"
        raise refused(message, repr(value), f"a comparison, such as {value!r} > 30")
    message = "not a predicate: {found}; expected {expected}, for example: {example}"
    raise refused(message, shorten(value), "text, a pattern or an expression")


def _of_object(value: Any) -> Condition:
    """The condition of an object; a user's class may raise anything when it is read."""
    try:
        return parse_rule(value) if isinstance(value, dict) else condition_of(value)
    except (MatchyardError, RecursionError):
        raise
    except Exception as error:
        raise refused(
            "not a predicate: {found} cannot be read: {kind}: {reason}; for example: {example}",
            shorten(value),
            "text, a pattern or an expression",
            kind=type(error).__name__,
            reason=shorten(error),
        ) from error


def _rule(text: str) -> dict[str, Any]:
    rule: dict[str, Any] = read_json(
        text,
        "a pattern",
        "for example {example}",
        '{"area": ["north"]}',
        parse_float=finite,
        parse_int=whole,
        pairs=once,
    )
    return rule
