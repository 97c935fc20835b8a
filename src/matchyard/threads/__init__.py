"""Threads that match, waiting, Ctrl-C and forks."""

__all__ = ["forks", "interrupts", "pools", "waiting"]
