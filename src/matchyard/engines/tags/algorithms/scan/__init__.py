"""Compare each event with each signature. Read `scan.py` first."""

__all__ = ["gpu", "scan"]
