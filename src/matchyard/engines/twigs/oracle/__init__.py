"""MEANING: the definition of a match in plain Python, against which algorithms are tested.

Read `nodes.py` first.
"""

from matchyard.engines.twigs.oracle.oracle import explain, is_match

__all__ = ["elements", "explain", "is_match"]
