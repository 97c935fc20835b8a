"""Twigs of any form as numbers, and back."""

__all__ = ["decoding", "intake", "vocabulary"]
