"""What users call (`verbs`), the changes that wait (`state`, `staged`), and the snapshot that matching sees.

Read `verbs` first: it has the class that the kinds of index share.
"""

__all__ = ["keys", "saved_tables", "segment", "verbs"]
