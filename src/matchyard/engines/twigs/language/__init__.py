"""WORDS: a subscription is a twig in XPath; an event is an XML document. Read `model.py` first."""

from matchyard.engines.twigs.language.language import (
    Document,
    Event,
    Subscription,
    format,
    parse,
    parse_event,
)
from matchyard.engines.twigs.language.model import ANY, Axis, Node, Source, Test, Twig, TwigError
from matchyard.engines.twigs.language.normal_form import MAX_TREES

__all__ = [
    "ANY", "MAX_TREES", "Axis", "Document", "Event", "Node", "Source", "Subscription", "Test",
    "Twig", "TwigError", "format", "formatting", "model", "normal_form", "options", "parse",
    "parse_event",
]  # fmt: skip
