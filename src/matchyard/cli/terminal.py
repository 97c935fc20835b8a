"""What the commands say to people: progress, which passes, notes, which stay, and results as they come.

Names, keys and excerpts come from files, and a terminal obeys what it is sent: all text goes through
`shown`.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any, TextIO

_MOST = 1000  # characters of a note
_BAR = 30  # characters of a bar
_LINE = "\r\033[K"  # back to the beginning, and the line is empty
# Characters that move the cursor, change colours, end lines or turn the direction of what follows.
_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def shown(text: str) -> str:
    r"""Text as a terminal may get it: what it would obey is written as an escape.

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
    """Lines of text on standard output, or another stream; what that cannot encode is escaped."""
    file = file or sys.stdout
    lines = "\n".join(shown(line) for line in text.split("\n"))
    encoding = file.encoding or "utf-8"
    print(lines.encode(encoding, "backslashreplace").decode(encoding), file=file, flush=True)


def progress(message: str) -> None:
    """Replace the line that is shown; on a terminal only."""
    if sys.stderr.isatty():
        end = "\n" if not message else ""
        print(f"{_LINE}{shown(message)}", end=end, file=sys.stderr, flush=True)


def bar(what: str, done: int, total: int) -> None:
    """Replace the line that is shown by a bar: how much of something is done."""
    share = done / max(1, total)
    full = round(_BAR * share)
    progress(f"{what} {'█' * full}{'░' * (_BAR - full)} {share:4.0%}  {done:,} of {total:,}")


def clear() -> None:
    """Take the line of progress away."""
    if sys.stderr.isatty():
        print(_LINE, end="", file=sys.stderr, flush=True)


def summary(message: str) -> None:
    """A line on standard error that stays."""
    clear()
    say(shown(message), sys.stderr)


def note(message: str) -> None:
    """A line that stays, under the name of the command. Of a name or an excerpt that fills screens,
    the middle is left out."""
    n_left_out = len(message) - _MOST
    if n_left_out > 0:
        half = _MOST // 2
        message = f"{message[:half]} … ({n_left_out:,} characters) … {message[-half:]}"
    summary(f"matchyard: {message}")


def collect(results: Iterable[Any], as_json: bool) -> list[Any]:
    """All results, each printed as an object when it comes, where programs are to read them."""
    found = []
    for result in results:
        found.append(result)
        if as_json:
            clear()
            print(json.dumps(result._asdict()), flush=True)
    clear()
    return found
