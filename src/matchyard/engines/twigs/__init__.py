"""Twigs: an XPath tree pattern matches an XML document with elements in that shape.

Read `language/model.py` first, then `oracle/nodes.py`.
"""

ALGORITHMS = ("lazy_dfa", "stacks", "yfilter")
DEFAULT = "lazy_dfa"
