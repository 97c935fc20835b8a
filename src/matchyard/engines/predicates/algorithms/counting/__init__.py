"""Count the satisfied constraints of each filter."""

__all__ = ["counting", "gpu"]
