"""What `matchyard demo` and `matchyard demo network` run and show."""

__all__ = ["demo", "network"]
