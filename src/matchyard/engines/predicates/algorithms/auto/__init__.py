"""Choose between algorithms by the size of the table and of the batch."""

__all__ = ["auto", "gpu"]
