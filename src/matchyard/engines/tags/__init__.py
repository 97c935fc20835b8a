"""Tags: a subscription is a set of tags and matches every event that has all of them. Read `oracle`
first, then `encoder` and `algorithms.rarest`."""

ALGORITHMS = ("rarest", "tagmatch", "prefix_tree", "scan")
DEFAULT = "rarest"
