"""The tokens of a twig's text, and errors that point at one of them."""

from __future__ import annotations

import re
from typing import NoReturn

from matchyard.engines.twigs.language.model import HALF, TWIG, WORD, TwigError
from matchyard.errors import place_after

EXAMPLE = f"for example: {TWIG}"
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(
        "(?:[^"]|"")*" | '(?:[^']|'')*' | [0-9]+(?:\.[0-9]*)? | \.[0-9]+
      | {WORD}(?::(?!:)(?:{WORD}|\*))? | :: | // | \.\. | != | <= | >= | [^ \t\r\n] )""",
    re.VERBOSE,
)
_IS_NAME = re.compile(WORD)  # at its start
UNSUPPORTED = {
    "arithmetic": "arithmetic is not supported",
    "axis": "axes other than child, descendant and attribute are not supported",
    "comparison": "only a path can be compared, with a text or a number",
    "constant": "a text or number alone is no condition",
    "document": "the document itself has no attributes and no text; expected an element first",
    "function": "functions other than not() and text() are not supported",
    "group": "a path cannot go on after parentheses",
    "node": "comment(), processing-instruction() and node() are not supported",
    "position": "positions are not supported, since a twig asks if something is there, not where",
    "predicate": "a predicate can only follow the name of an element or *",
    "variable": "variables are not supported",
    "wildcard": "* stands for any element, not for any attribute, nor for all names of a prefix",
}


_INSTEAD = {
    "arithmetic": "a path, a text or a number",
    "axis": "one of the axes child, descendant and attribute",
    "comparison": "a path on one side, and a text or a number on the other",
    "constant": "a path or a comparison",
    "document": "an element first",
    "function": "not() or text()",
    "group": "a comparison, and, or, or the end",
    "node": "the name of an element, @ and a name, or text()",
    "position": "a condition",
    "predicate": "the name of an element or * before it",
    "variable": "a text or a number",
    "wildcard": "a whole name",
}


class Tokens:
    """The tokens of a text and the current position; tokens after the last one are empty."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all: list[str] = [*_TOKEN.findall(text), "", "", ""]
        self.at = 0
        half = HALF.search(text)
        if half is not None:
            message, found = "found {found}, half a character", repr(half[0])
            raise self._error_at(half.start(), message, "syntax", found, "whole characters")

    @property
    def token(self) -> str:
        """The current token."""
        return self.all[self.at]

    def following(self, n: int = 1) -> str:
        """The n-th token after the current one."""
        return self.all[min(self.at + n, len(self.all) - 1)]

    def is_name(self) -> bool:
        """True if the current token is a name, with or without a prefix."""
        return _IS_NAME.match(self.token) is not None and not self.token.endswith("*")

    def expect(self, token: str, expected: str) -> None:
        """Read a token that must come now."""
        if self.token != token:
            self.fail(expected)
        self.at += 1

    def unsupported(self, part: str, at: int | None = None) -> NoReturn:
        """Raise the error that a token is from an unsupported part of XPath."""
        at = self.at if at is None else at
        message = f"found {{found}}; {UNSUPPORTED[part]}"
        raise self._error(at, message, part, _shorten(self.all[at]), _INSTEAD[part])

    def fail(self, expected: str, at: int | None = None, part: str = "syntax") -> NoReturn:
        """Raise the error that something else was expected."""
        at = self.at if at is None else at
        token = self.all[at]
        seen = "found {found}" if token else "it ends here"
        if token in ('"', "'"):
            seen += ", which is not closed"
        found = _shorten(token) if token else "the end"
        raise self._error(at, f"{seen}; expected {{expected}}", part, found, expected)

    def _error(self, at: int, message: str, part: str, found: str, expected: str) -> TwigError:
        """The message with the line of the text and a caret below the token."""
        starts = [token.start(1) for token in _TOKEN.finditer(self.text)]
        end = len(self.text.rstrip(" \t\r\n"))
        position = starts[at] if at < len(starts) else end
        return self._error_at(position, message, part, found, expected)

    def _error_at(
        self, position: int, message: str, part: str, found: str, expected: str
    ) -> TwigError:
        line, column = place_after(self.text[:position])
        whole = self.text.split("\n")[line - 1]
        from_column = max(0, column - 61)
        shown = re.sub(r"\s", " ", whole[from_column : column + 39])
        return TwigError.of(
            f"not a twig: {{where}}: {message}\n  {{shown}}\n  {{caret}}\nfor example: {{example}}",
            where=f"column {column}" if line == 1 else f"line {line}, column {column}",
            shown=HALF.sub("\ufffd", shown),
            caret=" " * (column - 1 - from_column) + "^",
            part=part,
            line=line,
            column=column,
            found=found,
            expected=expected,
            example=TWIG,
        )


def _shorten(token: str) -> str:
    shown = token if token.isprintable() else repr(token)
    return shown if len(shown) <= 40 else shown[:39] + "…"
