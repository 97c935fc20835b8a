"""The errors of this package. Every message says what was found, where, and what was expected."""

from __future__ import annotations

import traceback
from typing import Any


class MatchyardError(Exception):
    """The parent of every error that this package raises on purpose."""


class UsageError(MatchyardError, ValueError):
    """An argument, option or name that the call does not take."""


class EventError(UsageError):
    """An event that the algorithm does not take; `{event}` in the message is its number."""

    def __init__(self, message: str, event: int) -> None:
        super().__init__(message, event)
        self.message, self.event = message, event

    def __str__(self) -> str:
        return self.message.format(event=self.event)

    def counted_from(self, first: int) -> EventError:
        """A copy with `first`, the number of the chunk's first event, added to `event`."""
        return EventError(self.message, self.event + first)


class ParseError(MatchyardError, ValueError):
    """A subscription or event that the engine's language does not allow."""


class JsonError(EventError, ParseError):
    """An event that is not an object of JSON values, with the reason."""

    def __init__(self, reason: str, event: int) -> None:
        super().__init__(f"event {{event}} {_plain(reason)}", event)
        self.reason = reason

    def __reduce__(self) -> tuple[type[JsonError], tuple[str, int]]:
        return JsonError, (self.reason, self.event)

    def counted_from(self, first: int) -> JsonError:
        """A copy with `first`, the number of the chunk's first event, added to `event`."""
        return JsonError(self.reason, self.event + first)


class XmlError(EventError, ParseError):
    """A document that is not XML or exceeds a limit; its line and column count from 1."""

    def __init__(self, reason: str, line: int, column: int, event: int = 0) -> None:
        message = f"document {{event}} at line {line}, column {column}: {_plain(reason)}"
        super().__init__(message, event)
        self.reason, self.line, self.column = reason, line, column

    def __reduce__(self) -> tuple[type[XmlError], tuple[str, int, int, int]]:
        return XmlError, (self.reason, self.line, self.column, self.event)

    def counted_from(self, first: int) -> XmlError:
        """A copy with `first`, the number of the chunk's first event, added to `event`."""
        return XmlError(self.reason, self.line, self.column, self.event + first)


class StorageError(MatchyardError, OSError):
    """A saved index that is absent, foreign, damaged or of another format."""


class StagedWarning(UserWarning):
    """Changes were staged and then not matched: `consolidate` is missing, or `live=True`."""


class DeviceError(MatchyardError, RuntimeError):
    """A device that is not available, has too little memory, or has failed."""


def forget_locals(error: BaseException | None) -> None:
    """Clear the local variables in the tracebacks of an error and its causes, except in frames that
    still run. Tracebacks keep their line numbers. `__context__` belongs to other code: leave it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__


def _plain(reason: str) -> str:
    """Escape braces, so that `format` leaves the text as it is."""
    return reason.replace("{", "{{").replace("}", "}}")


def shorten(value: Any) -> str:
    """The text of a value for a message, cut after 60 characters."""
    try:
        text = repr(value)
    except Exception as error:  # thousands of digits, deep nesting, or a bug in `__repr__`
        text = (
            f"a value of type {type(value).__name__} that cannot be shown ({type(error).__name__})"
        )
    return text if len(text) <= 60 else f"{text[:57]}…"
