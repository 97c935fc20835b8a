"""A scanner of JSON text that writes numbers instead of objects."""

__all__ = ["decimals", "scanner"]
