"""Predicates of any form as filters, and back."""

__all__ = ["decoding", "intake", "pieces", "travelling", "vocabulary"]
