"""Algorithms of the twigs engine, one module each."""
