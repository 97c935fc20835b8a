"""The fields of an error on their way to the driver: Spark hands on only the text of a traceback, and
notes are part of it."""

from __future__ import annotations

import json

from matchyard.errors import ParseError

NOTE = "fields: "


def noted(error: ParseError) -> ParseError:
    """The error with a note of its fields."""
    fields = (error.line, error.column, error.found, error.expected, error.example)
    if any(field is not None for field in fields):
        error.add_note(NOTE + json.dumps(fields))
    return error


def told(message: str, note: str) -> ParseError:
    """The error of a message and the note after it; without fields, if the note is cut off."""
    try:
        line, column, found, expected, example = json.loads(note)
    except ValueError:
        line = column = found = expected = example = None
    return ParseError.of(
        "{message}",
        message=message,
        line=line,
        column=column,
        found=found,
        expected=expected,
        example=example,
    )
