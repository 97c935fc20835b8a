"""Functions that run in Spark workers."""

__all__ = [
    "build", "changes", "job", "match", "match_files", "notes", "parquet_types", "records", "rows",
    "shards", "sources",
]  # fmt: skip
