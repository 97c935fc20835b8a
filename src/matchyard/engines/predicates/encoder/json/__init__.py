"""A scanner of JSON text that writes arrays instead of objects. Read `scanner` first."""

__all__ = ["decimals", "faults", "name_tree", "scanner"]
