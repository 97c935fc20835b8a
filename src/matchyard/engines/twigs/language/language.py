"""WORDS: a subscription is a twig, written in XPath (see `xpath`); an event is an XML document.

A twig has a normal form (`normal_form`), alternatives of trees of nodes. Twigs with the same normal
form compare equal however they were written.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from matchyard.engines.twigs.language.formatting import format_twig
from matchyard.engines.twigs.language.model import TWIG, Twig
from matchyard.engines.twigs.language.normal_form import MAX_TREES, normalise, twig_of
from matchyard.engines.twigs.language.xpath import parse_text
from matchyard.errors import ParseError

Subscription = Twig
Document: TypeAlias = bytes | str
Event = Document


def parse(value: Any, max_trees: int = MAX_TREES) -> Twig:
    """The twig that a text or twig stands for.

    >>> format(parse("article[@year > 1990 and .//author = 'Ada']/title"))
    '//article[@year > 1990][.//author = "Ada"]/title'
    """
    if isinstance(value, str):
        return twig_of(parse_text(value), max_trees)
    if isinstance(value, Twig):
        return normalise(value, max_trees)
    raise ParseError.of(
        "not a twig: {found}; expected {expected}, for example: {example}",
        found=f"{value!r:.80}",
        expected="text",
        example=TWIG,
    )


def parse_event(value: Any) -> Document:
    """The document in bytes or text. It is not parsed before it is matched.

    >>> parse_event("<a/>")
    '<a/>'
    """
    if isinstance(value, (bytes, str)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise ParseError.of(
        "not a document: {found}; expected {expected}, such as {example}",
        found=f"{value!r:.80}",
        expected="XML as bytes or text",
        example="<a/>",
    )


def format(twig: Twig) -> str:
    """A twig as text, which parses to an equal twig and means the same in XPath.

    >>> format(parse("a[b or not(c)]"))
    '//a/b | //a[not(c)]'
    """
    return format_twig(twig)
