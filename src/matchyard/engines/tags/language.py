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
    """Parse a collection of strings, or a text, as the tags of a subscription.

    >>> sorted(parse("jazz live"))
    ['jazz', 'live']
    """
    tags = parse_event(value)
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
