"""Bitsets of filters, tile by tile: the default algorithm. Read `tiles` first, then `filing`."""

__all__ = ["gpu", "tiles"]
