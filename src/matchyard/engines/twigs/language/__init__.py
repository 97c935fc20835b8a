"""WORDS: a subscription is a twig in XPath; an event is an XML document. Read `model.py` first."""

from matchyard.engines.twigs.language.language import (
    ANY,
    MAX_TREES,
    Axis,
    Document,
    Event,
    Node,
    Source,
    Subscription,
    Test,
    Twig,
    TwigError,
    format,
    parse,
    parse_event,
)

__all__ = [
    "ANY",
    "MAX_TREES",
    "Axis",
    "Document",
    "Event",
    "Node",
    "Source",
    "Subscription",
    "Test",
    "Twig",
    "TwigError",
    "format",
    "formatting",
    "model",
    "normal_form",
    "options",
    "parse",
    "parse_event",
]
