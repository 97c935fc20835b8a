"""Parts that several algorithms of predicates share."""

__all__ = [
    "cell_lists",
    "counted_filters",
    "exact_check",
    "interval_ends",
    "intervals",
    "stored_filters",
]
