"""One automaton finds the paths of all twigs, then joins combine them. Read `yfilter.py` first."""

__all__ = ["yfilter"]
