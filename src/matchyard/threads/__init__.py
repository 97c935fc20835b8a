"""Match on several threads, and stay correct under Ctrl-C and forks. Read `pools` first."""

__all__ = ["forks", "interrupts", "pools", "waiting"]
