"""MEANING: the definition of a match, in plain Python. Every algorithm is tested against it."""

from matchyard.engines.twigs.oracle.oracle import explain, is_match

__all__ = ["elements", "explain", "is_match"]
