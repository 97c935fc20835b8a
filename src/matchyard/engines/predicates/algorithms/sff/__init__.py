"""Look at the rarest constraint of each filter first."""

__all__ = ["sff"]
