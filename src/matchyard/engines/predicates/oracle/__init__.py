"""MEANING: the definition of a match, in plain Python. Every algorithm is tested against it."""

from matchyard.engines.predicates.oracle.oracle import explain, is_match

__all__ = ["explain", "is_match"]
