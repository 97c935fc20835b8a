"""Values of Sigma rules as tests of predicates: wildcards, encodings, dashes and regular expressions."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from itertools import product
from typing import Any

from matchyard.engines.predicates.language.finite_patterns import finite

ENCODINGS = {
    "wide": "utf-16-le",
    "utf16le": "utf-16-le",
    "utf16be": "utf-16-be",
    "utf16": "utf-16",
}
AFFIXES = {"contains": ("*", "*"), "startswith": ("", "*"), "endswith": ("*", "")}
COMPARISONS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}  # of regular expressions
OF_TEXTS = {*ENCODINGS, "base64", "base64offset", "cased", "windash"}
ANYTHING = "exists"
_DASH = re.compile(r"\B[-/]\b")
_DASHES = "-/\N{EN DASH}\N{EM DASH}\N{HORIZONTAL BAR}"
_MOST_DASHES = 3  # 125 texts
_PIECE = re.compile(r"\\([*?\\])|(\*+|\?)|([^*?\\]+|\\)")


class Unmapped(Exception):
    """A rule needs something that predicates do not have."""


def tests_of(modifiers: tuple[str, ...], value: Any) -> Iterator[str]:
    """The tests of one value, as they stand in a set."""
    if value is None:
        yield "null"
        return
    for modifier in modifiers:
        if modifier in COMPARISONS:
            number = _typed(str(value))
            if number is None or number in ("true", "false"):
                raise Unmapped("comparison with a text")
            yield f"{COMPARISONS[modifier]} {number}"
            return
    if "cidr" in modifiers:
        yield f"cidr {json.dumps(value)}"
        return
    if "re" in modifiers:
        yield from _of_regex(str(value), sum(FLAGS[one] for one in set(modifiers) & set(FLAGS)))
        return
    is_plain = not set(modifiers) & {*AFFIXES, *OF_TEXTS}
    is_encoded = bool(set(modifiers) & {*ENCODINGS, "base64", "base64offset"})
    typed = is_plain and _typed(value) if isinstance(value, str) else str(value).lower()
    if typed and not is_encoded:
        yield typed
    before, after = next((AFFIXES[m] for m in modifiers if m in AFFIXES), ("", ""))
    text = value if isinstance(value, str) else str(value).lower()
    for variant in _variants(text) if "windash" in modifiers else [text]:
        for one in _encoded(variant, modifiers) if is_encoded else [_protect(variant, after)]:
            yield _match(f"{before}{one}{after}", "cased" in modifiers)


def _typed(text: str) -> str | None:
    """The number or truth value that a text stands for, since logs may have it as such."""
    if text.lower() in ("true", "false"):
        return text.lower()
    if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text):
        return text
    is_decimal = re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,15}", text) and repr(float(text)) == text
    return text if is_decimal else None


def _encoded(text: str, modifiers: tuple[str, ...]) -> Iterator[str]:
    """A text as it is found within what was encoded: at any of three places, for `base64offset`."""
    if not {"base64", "base64offset"} & set(modifiers) or len(_split(text)) > 1:
        raise Unmapped("encoded value")
    [literal] = _split(text)
    coding = next((ENCODINGS[one] for one in modifiers if one in ENCODINGS), "utf-8")
    data = literal.encode(coding)
    if "base64" in modifiers:
        if not data:
            raise Unmapped("encoded value that is too short")
        yield b64encode(data).decode()
        return
    for shift, start in enumerate((0, 2, 3)):
        end = (None, -3, -2)[(len(data) + shift) % 3]
        inside = b64encode(b" " * shift + data).decode()[start:end]
        if not inside:
            raise Unmapped("encoded value that is too short")
        yield inside


def _of_regex(pattern: str, flags: int) -> Iterator[str]:
    """The tests for the texts that a regular expression finds, if they are few."""
    found = finite(pattern, flags)
    if found is None:
        raise Unmapped("regular expression")
    for text in found.texts:
        escaped = re.sub(r"([*?\\])", r"\\\1", text)
        for after in ("", "\n") if found.at_end else ("*",):  # `$` is also before a last line feed
            whole = f"{'' if found.at_start else '*'}{escaped}{after}"
            yield _match(whole, not found.ignores_case)


def _protect(text: str, after: str) -> str:
    """A backslash at the end is none that escapes the wildcard after it."""
    n_last = len(text) - len(text.rstrip("\\"))
    return text + "\\" if after and n_last % 2 else text


def _variants(text: str) -> Iterator[str]:
    """The text with every dash of an option written in all ways."""
    pieces = _DASH.split(text)
    if len(pieces) - 1 > _MOST_DASHES:
        raise Unmapped("too many dashes")
    for dashes in product(_DASHES, repeat=len(pieces) - 1):
        yield pieces[0] + "".join(map("".join, zip(dashes, pieces[1:], strict=True)))


def _match(pattern: str, cased: bool) -> str:
    """The test for a text with wildcards."""
    parts = _split(pattern)
    literal = "".join(parts)
    how = "" if cased else " ignoring case"
    if len(parts) == 1:
        return f"= {json.dumps(parts[0], ensure_ascii=False)}{how}"
    if not literal:
        return ANYTHING
    quoted = json.dumps(literal, ensure_ascii=False)
    if len(parts) == 2 and not parts[0]:
        return f"suffix {quoted}{how}"
    if len(parts) == 2 and not parts[1]:
        return f"prefix {quoted}{how}"
    if len(parts) == 3 and not parts[0] and not parts[2]:
        return f"contains {quoted}{how}"
    escaped = "*".join(part.replace("\\", "\\\\").replace("*", "\\*") for part in parts)
    return f"wildcard {json.dumps(escaped, ensure_ascii=False)}{how}"


def _split(pattern: str) -> list[str]:
    r"""The literal texts around the wildcards. A backslash is itself unless before `*`, `?` or `\`."""
    parts: list[list[str]] = [[]]
    for escaped, wildcards, literal in _PIECE.findall(pattern):
        if wildcards == "?":
            raise Unmapped("wildcard for one character")
        if wildcards:
            parts.append([])
        else:
            parts[-1].append(escaped or literal)
    return ["".join(part) for part in parts]
