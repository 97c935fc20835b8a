"""Predicates: a subscription is a condition on named attributes and matches the events it holds for."""

ALGORITHMS = ("auto", "tiles", "counting", "sff", "hem", "rein", "ada_rein", "tama", "opindex")
DEFAULT = "auto"
