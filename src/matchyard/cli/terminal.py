"""Output of the commands on a terminal: passing progress, lasting notes, and results.

Names, keys and excerpts come from files and could contain control sequences: all text goes through
`shown`.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any, TextIO

from matchyard.errors import without_secrets

_MOST = 1000  # characters of a note
_BAR = 30  # characters of a bar
_LINE = "\r\033[K"  # move to the beginning of the line and clear it
# Characters that move the cursor, change colours, end lines or turn the direction of text.
_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def shown(text: str) -> str:
    r"""Escape the control characters of a text, so that it is safe on a terminal.

    >>> shown("a\x1b[31mb\x07\u202ec\udc80")
    'a\\x1b[31mb\\x07\\u202ec\\udc80'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if _is_obeyed(char) else char for char in text)


def _is_obeyed(char: str) -> bool:
    return (
        unicodedata.category(char) in _CATEGORIES or unicodedata.bidirectional(char) in _DIRECTIONS
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def say(text: str, file: TextIO | None = None) -> None:
    """Print text to standard output or another stream; escape what the stream cannot encode."""
    file = file or sys.stdout
    lines = "\n".join(shown(line) for line in text.split("\n"))
    encoding = file.encoding or "utf-8"
    print(lines.encode(encoding, "backslashreplace").decode(encoding), file=file, flush=True)


def progress(message: str) -> None:
    """Replace the line of progress; on a terminal only."""
    if sys.stderr.isatty():
        end = "\n" if not message else ""
        print(f"{_LINE}{shown(message)}", end=end, file=sys.stderr, flush=True)


def bar(what: str, done: int, total: int) -> None:
    """Replace the line of progress by a bar."""
    share = done / max(1, total)
    full = round(_BAR * share)
    progress(f"{what} {'█' * full}{'░' * (_BAR - full)} {share:4.0%}  {done:,} of {total:,}")


def clear() -> None:
    """Remove the line of progress."""
    if sys.stderr.isatty():
        print(_LINE, end="", file=sys.stderr, flush=True)


def summary(message: str) -> None:
    """Print a lasting line to standard error."""
    clear()
    say(shown(without_secrets(message)), sys.stderr)


def note(message: str) -> None:
    """Print a lasting line with the name of the command. The middle of a very long message is left
    out."""
    message = without_secrets(message)  # none is cut in two
    n_left_out = len(message) - _MOST
    if n_left_out > 0:
        half = _MOST // 2
        message = f"{message[:half]} … ({n_left_out:,} characters) … {message[-half:]}"
    summary(f"matchyard: {message}")


def collect(results: Iterable[Any], as_json: bool) -> list[Any]:
    """Collect all results; with `as_json`, print each as an object at once."""
    collected = []
    for result in results:
        collected.append(result)
        if as_json:
            clear()
            print(json.dumps(result._asdict()), flush=True)
    clear()
    return collected
