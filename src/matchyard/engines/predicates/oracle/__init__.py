"""MEANING: the definition of a match, in plain Python, for the tests. Read `oracle` first."""

from matchyard.engines.predicates.oracle.oracle import explain, is_match

__all__ = ["explain", "is_match"]
