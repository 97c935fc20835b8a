"""One automaton of all paths, then joins."""

__all__ = ["yfilter"]
