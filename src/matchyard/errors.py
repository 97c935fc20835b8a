"""The errors of this package. Every message says what was found, where, and what was expected.

Addresses may have secrets. No error, and no line of the logger `matchyard`, shows one.
"""

from __future__ import annotations

import logging
import re
import traceback
from copy import copy
from typing import Any, Self
from urllib.parse import unquote

# `s3://KEY:SECRET@bucket`; a secret may have a slash or an @ that should have been written as %2F or %40.
_PASSWORD = re.compile(
    r"(?P<before>\b(?P<scheme>[a-z][\w+.-]*):/+[^\s:/@?#'\"]*:)(?P<secret>[^@\s]*(?:@[^/@\s]*)*)(?=@)",
    re.I,
)
_PORT = re.compile(r"\d{1,5}(?:[/?#,;'\")]|$)")  # and what follows it in hdfs://host:9000/a@b
_PARAMETER = re.compile(
    r"(?P<before>[?&;][^=&?\s]*(?:secret|token|pass|pwd|key|sig|sas|credential|auth)[^=&?\s]*=)"
    r"(?P<secret>[^&\s]*?)(?=[]'\"),:;.>]*(?:[\s&]|$))",
    re.I,
)
_SHORT = 3  # a secret of so few characters is looked for in addresses alone


def without_secrets(text: str) -> str:
    """A text whose addresses have no passwords, keys and tokens any more, nor has the rest of it.

    >>> without_secrets("s3://ada:0x/5@music/a.index?region=eu&session_token=7 does not exist")
    's3://ada:***@music/a.index?region=eu&session_token=*** does not exist'
    """
    if ":/" not in text:
        return text
    secrets = []

    def hide(found: re.Match[str]) -> str:
        scheme = found.groupdict().get("scheme", "s3").lower()
        if not scheme.startswith("s3") and _PORT.match(found["secret"]):
            return found[0]
        secrets.append(found["secret"])
        return f"{found['before']}***"

    text = _PARAMETER.sub(hide, _PASSWORD.sub(hide, text))
    for secret in {form for one in secrets for form in (one, unquote(one)) if len(form) > _SHORT}:
        text = text.replace(secret, "***")
    return text


def _redact(record: logging.LogRecord) -> bool:
    """A filter of a logger, which lets everything pass."""
    record.msg, record.args = without_secrets(record.getMessage()), None
    return True


logging.getLogger("matchyard").addFilter(_redact)


class MatchyardError(Exception):
    """The parent of every error that this package raises on purpose."""

    def __init__(self, *given: object) -> None:
        super().__init__(*(without_secrets(one) if isinstance(one, str) else one for one in given))


class UsageError(MatchyardError, ValueError):
    """An argument, option or name that the call does not take."""


class EventError(UsageError):
    """An event that the algorithm does not take; `{event}` in the message is its number."""

    def __init__(self, message: str, event: int) -> None:
        super().__init__(message, event)
        self.message: str = self.args[0]
        self.event = event

    def __str__(self) -> str:
        return self.message.format(event=self.event)

    def counted_from(self, first: int) -> Self:
        """A copy with `first`, the number of the chunk's first event, added to `event`."""
        counted = copy(self)
        counted.event += first
        counted.args = (counted.message, counted.event)
        return counted


class ParseError(MatchyardError, ValueError):
    """A subscription or event that the engine's language does not allow.

    `line` and `column` count from 1; both are None if the value is not text, or the place is not
    known. `found` is the text at the column, or names what was found. `expected` names what belongs
    there. `example` is a subscription or event that the engine takes.
    """

    line: int | None = None
    column: int | None = None
    found: str | None = None
    expected: str | None = None
    example: str | None = None

    @classmethod
    def of(
        cls,
        message: str,
        /,
        *,
        found: str | None,
        expected: str | None,
        example: str | None,
        line: int | None = None,
        column: int | None = None,
        **said: Any,
    ) -> Self:
        """Compose an error: `{found}` in the message is this field, and so on; `said` has the other
        values of the message.

        >>> ParseError.of("{found}; expected {expected}", found="5", expected="text", example="a")
        ParseError('5; expected text')
        """
        names = {"found": found, "expected": expected, "example": example, "column": column}
        error = cls._made(message.format(**names, **said), line, column, said)
        error.found, error.expected, error.example = found, expected, example
        return error

    @classmethod
    def _made(
        cls, message: str, line: int | None, column: int | None, said: dict[str, Any]
    ) -> Self:
        """The error at its place, without the other fields. A kind of error that has more takes them
        from `said`."""
        error = cls(message)
        error.line, error.column = line, column
        return error

    def saying(self, message: str) -> ParseError:
        """An error with the same fields and another message, such as one that names the row."""
        error = ParseError(message)
        error.line, error.column = self.line, self.column
        error.found, error.expected, error.example = self.found, self.expected, self.example
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the fields as they are, without `__init__`."""
        return _restored, (type(self), self.args, self.__dict__)


class JsonError(EventError, ParseError):
    """An event that is not an object of JSON values, with the reason."""

    def __init__(self, reason: str, event: int) -> None:
        super().__init__(f"event {{event}} {_plain(reason)}", event)
        self.reason = reason

    @classmethod
    def _made(
        cls, message: str, line: int | None, column: int | None, said: dict[str, Any]
    ) -> Self:
        error = cls(message, said["event"])
        error.line, error.column = line, column
        return error


class XmlError(EventError, ParseError):
    """A document that is not XML or exceeds a limit; its line and column count from 1."""

    line: int
    column: int

    def __init__(self, reason: str, line: int, column: int, event: int = 0) -> None:
        message = f"document {{event}} at line {line}, column {column}: {_plain(reason)}"
        super().__init__(message, event)
        self.reason, self.line, self.column = reason, line, column

    @classmethod
    def _made(
        cls, message: str, line: int | None, column: int | None, said: dict[str, Any]
    ) -> Self:
        return cls(message, line or 1, column or 1)


class StorageError(MatchyardError, OSError):
    """A saved index that is absent, foreign, damaged or of another format."""


class ConflictError(StorageError):
    """Another writer of the index was faster; what was to be published can be made again."""


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


def _restored(kind: type[ParseError], args: tuple[Any, ...], state: dict[str, Any]) -> ParseError:
    error: ParseError = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def place_after(text: str) -> tuple[int, int]:
    """The line and the column, from 1, of the character that follows a text.

    >>> place_after("a = 1 and" + chr(10) + "  b ")
    (2, 5)
    """
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def shorten(value: Any) -> str:
    """The text of a value for a message, cut after 60 characters."""
    try:
        text = without_secrets(repr(value))
    except Exception as error:  # thousands of digits, deep nesting, or a bug in `__repr__`
        text = (
            f"a value of type {type(value).__name__} that cannot be shown ({type(error).__name__})"
        )
    return text if len(text) <= 60 else f"{text[:57]}…"
