"""Match signatures in partitions, each with a mask [TagMatch]. Read `tagmatch.py` first."""

__all__ = ["gpu", "tagmatch"]
