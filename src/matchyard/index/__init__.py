"""What users call, the changes that wait, and the snapshot that matching sees."""

__all__ = ["keys", "kinds", "saved_tables", "snapshot", "verbs"]
