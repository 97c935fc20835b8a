"""Events of any form as entries: (attribute, code) pairs that algorithms read."""

__all__ = ["attributes", "entries", "intake", "pattern_index"]
