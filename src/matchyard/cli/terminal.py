"""What the commands say on standard error: progress, which passes, and notes, which stay."""

from __future__ import annotations

import sys


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
