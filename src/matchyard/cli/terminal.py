"""What the commands say on standard error: progress, which passes, and notes, which stay; and results
as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any


def progress(message: str) -> None:
    """Replace the line that is shown; on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end="\n" if not message else "", file=sys.stderr, flush=True)


def clear() -> None:
    """Take the line of progress away."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def note(message: str) -> None:
    """A line that stays, under the name of the command."""
    clear()
    print(f"matchyard: {message}", file=sys.stderr)


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
