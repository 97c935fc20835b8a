"""Tags: a subscription is a set of tags and matches every event that has all of them."""

ALGORITHMS = ("rarest", "tagmatch", "prefix_tree", "scan")
DEFAULT = "rarest"
