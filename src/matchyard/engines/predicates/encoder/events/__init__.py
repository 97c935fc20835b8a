"""Events of any form as entries, which are pairs of slot and code. Read `intake` first."""

__all__ = ["direct_check", "entries", "intake", "one_event", "pattern_index"]
