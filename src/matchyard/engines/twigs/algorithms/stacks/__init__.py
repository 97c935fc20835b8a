"""A stack of bits per tree node [GPU twig filtering]."""

__all__ = ["gpu", "stacks"]
