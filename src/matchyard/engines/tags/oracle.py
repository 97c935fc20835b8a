"""MEANING: the definition of a match, in plain Python. Every algorithm is tested against it."""

from __future__ import annotations

from matchyard.engines.tags.language import Event, Subscription


def is_match(subscription: Subscription, event: Event) -> bool:
    """A subscription matches when all of its tags are in the event; the empty one always does.

    >>> is_match(frozenset({"jazz"}), frozenset({"jazz", "live"}))
    True
    """
    return all(tag in event for tag in subscription)


def explain(subscription: Subscription, event: Event) -> str:
    """Why it matches, or why not.

    >>> explain(frozenset({"jazz", "oslo"}), frozenset({"jazz"}))
    'missing tag: oslo'
    """
    missing = sorted(subscription - event)
    if missing:
        return f"missing tag{'s' * (len(missing) > 1)}: {', '.join(missing)}"
    if not subscription:
        return "match: the empty subscription matches every event"
    return f"match: has {', '.join(sorted(subscription))}"
