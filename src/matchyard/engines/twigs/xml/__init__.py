"""XML by expat: events, entities and encodings."""

__all__ = ["encodings", "entities", "expat"]
