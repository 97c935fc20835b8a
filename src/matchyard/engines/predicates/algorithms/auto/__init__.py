"""Choose between a scan, `tiles` and the GPU by the size of table and batch. Read `auto` first."""

__all__ = ["auto", "gpu"]
