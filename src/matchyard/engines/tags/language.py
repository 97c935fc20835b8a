"""The language of tags: subscriptions and events are sets of tags, or text with spaces between."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matchyard.errors import ParseError

Tags = frozenset[str]
Subscription = Tags
Event = Tags

_EXAMPLE = 'expected a set of strings such as {"jazz", "live"} or text such as "jazz live"'


def parse(value: Any) -> Tags:
    """Parse a collection of strings, or a text, as a set of tags.

    >>> sorted(parse("jazz live"))
    ['jazz', 'live']
    """
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, (bytes, dict)) or not isinstance(value, Iterable):
        raise ParseError(f"not a set of tags: {value!r}; {_EXAMPLE}")
    try:
        tags = frozenset(value)
    except TypeError:  # an element is not hashable, e.g. a list
        raise ParseError(f"not a set of tags: {value!r}; {_EXAMPLE}") from None
    for tag in tags:
        if not isinstance(tag, str):
            raise ParseError(f"not a tag: {tag!r} in {value!r}; {_EXAMPLE}")
    return tags


parse_event = parse


def format(tags: Iterable[str]) -> str:
    """Write tags as text, sorted.

    >>> format({"live", "jazz"})
    'jazz live'
    """
    return " ".join(sorted(tags))
