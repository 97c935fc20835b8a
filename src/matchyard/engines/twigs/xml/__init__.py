"""Read XML by expat: signals, entities and encodings. Read `expat.py` first."""

__all__ = ["encodings", "entities", "expat"]
