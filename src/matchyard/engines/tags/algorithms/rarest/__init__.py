"""Find tag sets by their rarest tags: the default algorithm. Read `rarest.py` first."""

__all__ = ["gpu", "rarest"]
