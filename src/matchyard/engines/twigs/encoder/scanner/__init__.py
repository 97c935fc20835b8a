"""Scan XML text and write signals; expat reads the documents that the scanner cannot decide on.

Read `scanner.py` first, then `document.py`.
"""

__all__ = ["characters", "markup", "one_document", "scanner"]
