"""The texts that a regular expression can find, if they are few.

A pattern that is searched for finds every text that contains one of them, or begins or ends with one (`^`, `$`). A
repetition at the beginning or the end of a pattern counts with its least number: `ab*` finds what `a` finds. Classes
such as `\\d` are those of ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

_MOST = 256  # texts of one pattern: each is looked for in every event…
_LISTED = 1024  # …and so many are listed at most, of which those that contain others are left out
_LONGEST = 4096  # characters of a text
_DIGITS = "0123456789"
_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_" + _DIGITS
_FLAGS = re.UNICODE | re.IGNORECASE | re.ASCII | re.DOTALL | re.MULTILINE
_CLASSES = {"CATEGORY_DIGIT": _DIGITS, "CATEGORY_SPACE": " \t\n\r\f\v", "CATEGORY_WORD": _WORD}


class Finite(NamedTuple):
    """The texts of a pattern, and where they have to be."""

    texts: list[str]
    at_start: bool
    at_end: bool
    ignores_case: bool


def finite(pattern: str, flags: int = 0) -> Finite | None:
    r"""The texts that a pattern finds; None if there are many, or if they cannot be listed. Of texts that contain each
    other, the shorter one counts.

    >>> finite("UNC[12]$")
    Finite(texts=['UNC1', 'UNC2'], at_start=False, at_end=True, ignores_case=False)
    >>> finite("(net1?) .*").texts
    ['net ', 'net1 ']
    >>> finite(r"net\s+user") is None
    True
    """
    try:
        parsed: Any = import_module("re._parser").parse(pattern, flags)
    except (re.error, RecursionError, OverflowError):
        return None
    if parsed.state.flags & ~_FLAGS:
        return None
    items = list(parsed)
    at_start = bool(items) and _is(items[0], "AT", "AT_BEGINNING")
    at_end = bool(items) and _is(items[-1], "AT", "AT_END")
    if parsed.state.flags & re.MULTILINE and (at_start or at_end):
        return None
    items = items[at_start : len(items) - at_end]
    if not at_start:
        items = _least_first(items)
    if not at_end:
        items = _least_first(items[::-1])[::-1]
    texts = _texts(items)
    if texts is None or not all(texts):
        return None
    if not at_start and not at_end:
        texts = _shortest(texts)
    if len(texts) > _MOST:
        return None
    return Finite(
        list(dict.fromkeys(texts)), at_start, at_end, bool(parsed.state.flags & re.IGNORECASE)
    )


def _is(item: Any, kind: str, what: str) -> bool:
    return str(item[0]) == kind and str(item[1]) == what


def _least_first(items: list[Any]) -> list[Any]:
    """Items that begin with a repetition: with the least number of times, and without it if that is none."""
    while items and str(items[0][0]) in ("MAX_REPEAT", "MIN_REPEAT"):
        kind, (least, _, what) = items[0]
        if least:
            return [(kind, (least, least, what)), *items[1:]]
        items = items[1:]
    return items


def _shortest(texts: list[str]) -> list[str]:
    """Texts without those that contain another one."""
    kept: list[str] = []
    for text in sorted(set(texts), key=len):
        if not any(one in text for one in kept):
            kept.append(text)
    return [text for text in dict.fromkeys(texts) if text in kept]


def _texts(items: Sequence[Any]) -> list[str] | None:
    texts = [""]
    for item in items:
        more = _of_item(str(item[0]), item[1])
        if more is None or len(texts) * len(more) > _LISTED:
            return None
        if max(map(len, texts)) + max(map(len, more), default=0) > _LONGEST:
            return None
        texts = [begin + end for begin, end in product(texts, more)]
    return texts


def _of_item(kind: str, what: Any) -> list[str] | None:
    if kind == "LITERAL":
        return [chr(what)]
    if kind == "IN":
        return _of_class(what)
    if kind == "BRANCH":
        parts = [_texts(branch) for branch in what[1]]
        return None if None in parts else [text for part in parts for text in part or ()]
    if kind == "SUBPATTERN":
        _, added, removed, inner = what
        return None if added or removed else _texts(list(inner))
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = what
        if not isinstance(most, int) or most > _LISTED:
            return None
        one, texts = _texts(list(inner)), []
        if one is None or len(one) ** most > _LISTED or most * max(map(len, one)) > _LONGEST:
            return None
        for times in range(least, most + 1):
            texts += ["".join(some) for some in product(one, repeat=times)]
        return texts
    return None


def _of_class(members: Sequence[Any]) -> list[str] | None:
    found: list[str] = []
    for kind, what in members:
        if str(kind) == "LITERAL":
            found.append(chr(what))
        elif str(kind) == "RANGE":
            found += [chr(code) for code in range(what[0], min(what[1], what[0] + _LISTED) + 1)]
        elif str(kind) == "CATEGORY" and str(what) in _CLASSES:
            found += _CLASSES[str(what)]
        else:
            return None
    return list(dict.fromkeys(found))
