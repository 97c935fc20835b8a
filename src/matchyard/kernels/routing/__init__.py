"""Loops over trees, routing tables and whole networks."""

__all__ = ["aggregation", "filter_room", "filters", "sets", "stretch", "trees", "updates"]
