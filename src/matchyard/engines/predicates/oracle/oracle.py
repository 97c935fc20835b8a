"""MEANING: the definition of a match, in plain Python. Every algorithm is tested against it.

A *view* is what a filter sees at once: the event with one element of each array of objects (`arrays`).
`values` defines when a value satisfies a test.
"""

from __future__ import annotations

from matchyard.engines.predicates.language import Event, Filter, Subscription
from matchyard.engines.predicates.oracle.arrays import find_view
from matchyard.engines.predicates.oracle.explanation import explain_match, explain_miss


def is_match(subscription: Subscription, event: Event) -> bool:
    """True if one of the filters matches.

    >>> from matchyard.engines.predicates.language import parse
    >>> is_match(parse('area = "north" and temp > 30'), {"area": "north", "temp": 31})
    True
    """
    return any(is_filter_match(one, event) for one in subscription.filters)


def is_filter_match(one: Filter, event: Event) -> bool:
    """True if the constraints hold in one view, and no negated group holds in any."""
    return find_view(one.holds, event) is not None and not any(
        find_view(group, event) is not None for group in one.fails
    )


def explain(subscription: Subscription, event: Event) -> str:
    """Explain why the subscription matches, or why not.

    >>> from matchyard.engines.predicates.language import parse
    >>> explain(parse('area = "north" and temp > 30'), {"temp": 25})
    'no match: area = "north": area is absent; temp > 30: temp is 25'
    """
    for one in subscription.filters:
        if is_filter_match(one, event):
            return explain_match(one, event)
    return explain_miss(subscription, event)
