"""The default algorithm: a DFA that is built while documents are read. Read `lazy_dfa.py` first."""

__all__ = ["lazy_dfa"]
