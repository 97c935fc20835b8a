"""Count only satisfied constraints, found by an index per slot. Read `sff` first."""

__all__ = ["sff"]
