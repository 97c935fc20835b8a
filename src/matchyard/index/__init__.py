"""The verbs of an index, the staged changes (`state`, `staged`), and the snapshots for matching.

Read `verbs` first: it has the class that the kinds of index share.
"""

__all__ = ["bad_events", "contents", "keys", "removals", "saved_tables", "segment", "verbs"]
