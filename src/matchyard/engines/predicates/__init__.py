"""Predicates: a subscription is a condition on the attributes of events. Read `language` first."""

ALGORITHMS = ("auto", "tiles", "counting", "sff", "hem", "rein", "ada_rein", "tama", "opindex")
DEFAULT = "auto"
