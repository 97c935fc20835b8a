"""Encode twigs of any form as numbers, and decode them. Read `terms.py` first."""

__all__ = ["decoding", "intake", "terms", "vocabulary"]
