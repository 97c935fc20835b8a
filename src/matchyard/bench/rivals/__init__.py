"""Programs that do the same without Matchyard."""

__all__ = ["postgres", "subsets", "xpath"]
