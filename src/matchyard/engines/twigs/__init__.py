"""Twigs: an XPath tree pattern matches a document that has elements in that shape."""

ALGORITHMS = ("lazy_dfa", "stacks", "yfilter")
DEFAULT = "lazy_dfa"
