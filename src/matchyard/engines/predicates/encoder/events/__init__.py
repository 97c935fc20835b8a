"""Events of any form as entries, which are pairs of slot and code. Read `intake` first."""

__all__ = ["entries", "intake", "one_event", "pattern_index"]
