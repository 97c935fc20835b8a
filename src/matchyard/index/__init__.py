"""The functions of an index that users call, its staged changes, and the snapshot that `match`
sees. Read `verbs` first."""

__all__ = ["keys", "kinds", "saved_tables", "snapshot", "verbs"]
