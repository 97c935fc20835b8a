"""What can go wrong, by kind; every message says what was found, where, and what was expected."""

from __future__ import annotations


class MatchyardError(Exception):
    """The parent of every error that this package raises on purpose."""


class UsageError(MatchyardError, ValueError):
    """An argument, option or name that the call does not take."""


class ParseError(MatchyardError, ValueError):
    """A subscription or event that the engine's language does not allow."""


class StorageError(MatchyardError, OSError):
    """A saved index that is absent, foreign, damaged or of another format."""


class DeviceError(MatchyardError, RuntimeError):
    """A device that was asked for and cannot be had."""
