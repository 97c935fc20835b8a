"""Predicates of any form as filters, and back. Read `intake` first, then `pieces`."""

__all__ = ["coding", "decoding", "intake", "pieces", "travelling", "vocabulary"]
