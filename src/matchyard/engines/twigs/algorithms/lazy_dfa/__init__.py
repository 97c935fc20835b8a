"""A DFA over paths that is built while documents are read: the default algorithm."""

__all__ = ["lazy_dfa"]
