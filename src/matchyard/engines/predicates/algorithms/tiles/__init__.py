"""Bitmaps of filters, tile by tile: the default algorithm."""

__all__ = ["gpu", "tiles"]
