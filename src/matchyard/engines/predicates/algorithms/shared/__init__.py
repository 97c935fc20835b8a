"""Parts that several algorithms share. Read `stored_filters` first, then `exact_check`."""

__all__ = [
    "cell_lists", "counted_filters", "exact_check", "interval_ends", "intervals", "stored_filters",
]  # fmt: skip
