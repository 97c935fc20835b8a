"""Compare each event with each signature."""

__all__ = ["gpu", "scan"]
