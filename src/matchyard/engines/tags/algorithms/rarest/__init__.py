"""Find tag sets by their rarest tags: the default algorithm."""

__all__ = ["gpu", "rarest"]
