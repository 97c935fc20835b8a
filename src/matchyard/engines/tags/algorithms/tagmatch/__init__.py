"""Partitions of signatures behind a mask each [TagMatch]."""

__all__ = ["gpu", "tagmatch"]
