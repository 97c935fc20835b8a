"""The definition of a match, in plain Python. The tests compare every algorithm with it."""

from __future__ import annotations

from matchyard.engines.tags.language import Event, Subscription


def is_match(subscription: Subscription, event: Event) -> bool:
    """True if the event has all tags of the subscription; the empty subscription always matches.

    >>> is_match(frozenset({"jazz"}), frozenset({"jazz", "live"}))
    True
    """
    return all(tag in event for tag in subscription)


def explain(subscription: Subscription, event: Event) -> str:
    """Say why a subscription matches an event, or why not.

    >>> explain(frozenset({"jazz", "oslo"}), frozenset({"jazz"}))
    'missing tag: oslo'
    """
    missing = sorted(subscription - event)
    if missing:
        return f"missing tag{'s' * (len(missing) > 1)}: {', '.join(missing)}"
    if not subscription:
        return "match: the empty subscription matches every event"
    return f"match: has {', '.join(sorted(subscription))}"
