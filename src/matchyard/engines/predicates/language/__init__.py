"""WORDS: predicates as text, objects and patterns, and JSON-like events. Read `model` first."""

from matchyard.engines.predicates.language.canonical import alternatives, make_test, successor
from matchyard.engines.predicates.language.expressions import field
from matchyard.engines.predicates.language.language import (
    Event,
    Subscription,
    format,
    parse,
    parse_event,
)
from matchyard.engines.predicates.language.model import Constraint, Filter, Predicate, Test
from matchyard.engines.predicates.language.normal_form import MAX_FILTERS, MAX_TESTS

__all__ = [
    "MAX_FILTERS", "MAX_TESTS", "Constraint", "Event", "Filter", "Predicate", "Subscription",
    "Test", "alternatives", "canonical", "events", "examples", "field", "format",
    "formatting", "make_test", "model", "normal_form", "parse", "parse_event", "sigma", "sigma_rules",
    "successor",
]  # fmt: skip
