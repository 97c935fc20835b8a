"""Functions that run in Spark workers."""

__all__ = ["build", "job", "match", "notes", "records", "rows", "shards"]
