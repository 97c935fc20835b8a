"""The language of tags: subscriptions and events are sets of tags, or text with spaces between."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matchyard.errors import ParseError

Tags = frozenset[str]
Subscription = Tags
Event = Tags

EXAMPLE = "jazz live"
_EXPECTED = 'a set of strings such as {"jazz", "live"} or text such as "jazz live"'


def parse(value: Any) -> Tags:
    """Parse a collection of strings, or a text, as the tags of a subscription. Blank text is an error:
    the empty set matches every event, and few mean that when they write nothing.

    >>> sorted(parse("jazz live"))
    ['jazz', 'live']
    """
    tags = parse_event(value)
    if not tags and isinstance(value, str):
        raise ParseError.of(
            'not a set of tags: column {column}: found {found}; expected {expected}, e.g. "{example}"; '
            "the empty set, which matches every event, is a value such as set() or []",
            line=1,
            column=1,
            found="the end",
            expected="a tag",
            example="jazz oslo",
        )
    return tags


def parse_event(value: Any) -> Tags:
    """Parse a collection of strings, or a text, as the tags of an event; blank text has none."""
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, (bytes, dict)) or not isinstance(value, Iterable):
        raise _not_a_set(value)
    try:
        tags = frozenset(value)
    except TypeError:  # an element is not hashable, e.g. a list
        raise _not_a_set(value) from None
    for tag in tags:
        if not isinstance(tag, str):
            raise ParseError.of(
                "not a tag: {found} in {value!r}; expected {expected}",
                value=value,
                found=repr(tag),
                expected=_EXPECTED,
                example=EXAMPLE,
            )
    return tags


def _not_a_set(value: Any) -> ParseError:
    return ParseError.of(
        "not a set of tags: {found}; expected {expected}",
        found=repr(value),
        expected=_EXPECTED,
        example=EXAMPLE,
    )


def format(tags: Iterable[str]) -> str:
    """Write tags as text, sorted.

    >>> format({"live", "jazz"})
    'jazz live'
    """
    return " ".join(sorted(tags))
