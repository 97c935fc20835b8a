"""Sigma detection rules as predicates: the part of their language that has the same meaning here.

Selections of fields, lists, `contains`, `startswith`, `endswith`, `all`, `windash`, `cased`, `cidr`,
`exists`, comparisons, wildcards and `base64`, `base64offset` and `wide` are mapped; so are regular expressions that
find few texts, placeholders whose values are given, and conditions with `and`, `or`, `not` and `1 of` or `all of`
selections. Texts match whatever their case, as Sigma says. A number is matched by its text, too, since
logs write numbers as texts; `null` is an attribute that is null or absent. What a rule says about its
log source is left out. For other rules there is a reason.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Any, NoReturn

from matchyard.engines.predicates.language.finite_patterns import finite

_REASONS = {"fieldref": "comparison of two fields"}
_ENCODINGS = {
    "wide": "utf-16-le",
    "utf16le": "utf-16-le",
    "utf16be": "utf-16-be",
    "utf16": "utf-16",
}
_PLACEHOLDER = re.compile(r"%([^%\s]+)%")
_AFFIXES = {"contains": ("*", "*"), "startswith": ("", "*"), "endswith": ("*", "")}
_COMPARISONS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_DASH = re.compile(r"\B[-/]\b")
_DASHES = "-/\N{EN DASH}\N{EM DASH}\N{HORIZONTAL BAR}"
_MOST_DASHES = 3  # 125 texts
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_RESERVED = ("and", "or", "not", "exists", "true", "false")
_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


class Unmapped(Exception):
    """A rule needs something that predicates do not have."""


Placeholders = Mapping[str, Sequence[str]]


def listed(value: Any) -> list[Any]:
    """A list as it is, and one value as a list; nothing for null."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def translate(detection: Any, placeholders: Placeholders | None = None) -> str:
    """The text of a rule's detection.

    >>> translate({"a": {"Image|endswith": ["cmd.exe", "sh.exe"]}, "condition": "a"})
    'Image in {suffix "cmd.exe" ignoring case, suffix "sh.exe" ignoring case}'
    """
    if not isinstance(detection, dict):
        raise Unmapped("no detection")
    conditions = listed(detection.get("condition"))
    if not conditions or not all(isinstance(one, str) for one in conditions):
        raise Unmapped("no condition")
    selections = {str(name): what for name, what in detection.items()}
    parts = [_Condition(one, selections, placeholders or {}).read() for one in conditions]
    return _join(" or ", parts)


class _Condition:
    """A condition on selections, such as `selection and not 1 of filter_*`."""

    def __init__(self, text: str, detection: dict[str, Any], placeholders: Placeholders) -> None:
        if "|" in text:
            raise Unmapped("aggregation")
        self._placeholders = placeholders
        self._tokens, self._at, self._detection = _TOKEN.findall(text), 0, detection

    def read(self) -> str:
        condition = self._either()
        if self._at < len(self._tokens):
            self._fail()
        return condition

    def _fail(self) -> NoReturn:
        raise Unmapped("condition that is not understood")

    def _next(self) -> str:
        return self._tokens[self._at].lower() if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        if self._at == len(self._tokens):
            self._fail()
        self._at += 1
        token: str = self._tokens[self._at - 1]
        return token

    def _either(self) -> str:
        parts = [self._all()]
        while self._next() == "or":
            self._at += 1
            parts.append(self._all())
        return _join(" or ", parts)

    def _all(self) -> str:
        parts = [self._one()]
        while self._next() == "and":
            self._at += 1
            parts.append(self._one())
        return _join(" and ", parts)

    def _one(self) -> str:
        token = self._take()
        if token.lower() == "not":
            return _not(self._one())
        if token == "(":
            condition = self._either()
            if self._take() != ")":
                self._fail()
            return condition
        if self._next() == "of":
            self._at += 1
            return self._several(token.lower(), self._take())
        return self._selection(token)

    def _several(self, how_many: str, pattern: str) -> str:
        if how_many not in ("1", "any", "all"):
            raise Unmapped("several of the selections")
        names = [name for name in self._detection if name not in ("condition", "timeframe")]
        if pattern.lower() == "them":
            names = [name for name in names if not name.startswith("_")]
        else:
            names = [name for name in names if fnmatchcase(name, pattern)]
        if not names:
            self._fail()
        parts = [self._selection(name) for name in names]
        return _join(" and " if how_many == "all" else " or ", parts)

    def _selection(self, name: str) -> str:
        if name not in self._detection:
            self._fail()
        detection = self._detection[name]
        maps = detection if isinstance(detection, list) else [detection]
        if not maps or not all(isinstance(one, dict) and one for one in maps):
            raise Unmapped("keywords")
        return _join(" or ", [_map(one, self._placeholders) for one in maps])


def _join(word: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else word.join(f"({part})" for part in parts)


def _not(part: str) -> str:
    return f"not ({part})"


def _map(fields: dict[str, Any], placeholders: Placeholders) -> str:
    parts = [
        _field(*str(key).split("|"), value=value, placeholders=placeholders)
        for key, value in fields.items()
    ]
    return _join(" and ", parts)


_KNOWN = {
    *_AFFIXES, *_COMPARISONS, *_ENCODINGS, "all", "base64", "base64offset", "cased", "cidr", "exists",
    "expand", "i", "re", "windash",
}  # fmt: skip


def _field(name: str, *modifiers: str, value: Any, placeholders: Placeholders) -> str:
    """The condition that a field with its modifiers stands for."""
    if not name:
        raise Unmapped("keywords")
    for modifier in modifiers:
        if modifier not in _KNOWN:
            raise Unmapped(_REASONS.get(modifier, f"modifier {modifier!r}"))
    name = _quoted_name(name)
    if "exists" in modifiers:
        exists = f"exists {name}"
        return exists if value and str(value).lower() not in ("false", "no") else _not(exists)
    values = list(value) if isinstance(value, list) else [value]
    if not all(one is None or isinstance(one, str | int | float) for one in values):
        raise Unmapped("value that is neither text nor number")
    if "expand" in modifiers:
        values = [one for text in values for one in _expanded(str(text), placeholders)]
    if "all" in modifiers and values:
        return _join(" and ", [_one_of(name, modifiers, [one]) for one in values])
    return _one_of(name, modifiers, values)


def _expanded(text: str, placeholders: Placeholders) -> Iterator[str]:
    """A text with each value of its placeholder."""
    found = _PLACEHOLDER.search(text)
    if found is None:
        yield text
        return
    if found[1] not in placeholders:
        raise Unmapped(f"placeholder %{found[1]}%")
    for rest in _expanded(text[found.end() :], placeholders):
        for value in listed(placeholders[found[1]]):
            yield f"{text[: found.start()]}{value}{rest}"


def _quoted_name(name: str) -> str:
    if _NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _one_of(name: str, modifiers: tuple[str, ...], values: list[Any]) -> str:
    if not values:
        raise Unmapped("empty list")
    tests: dict[str, None] = {}
    parts = []
    for value in values:
        if value is None:
            parts.append(_not(f"exists {name}"))
            tests["null"] = None
        else:
            tests |= dict.fromkeys(_tests(modifiers, value))
    if tests:
        parts.append(f"{name} in {{{', '.join(tests)}}}")
    return _join(" or ", parts)


def _tests(modifiers: tuple[str, ...], value: Any) -> Iterator[str]:
    """The tests of one value, as they stand in a set."""
    for modifier in modifiers:
        if modifier in _COMPARISONS:
            yield f"{_COMPARISONS[modifier]} {json.dumps(value)}"
            return
    if "cidr" in modifiers:
        yield f"cidr {json.dumps(value)}"
        return
    if "re" in modifiers:
        yield from _of_regex(str(value), "i" in modifiers)
        return
    is_plain = not set(modifiers) & set(_AFFIXES)
    if not isinstance(value, str) or (is_plain and re.fullmatch(r"0|[1-9][0-9]{0,17}", value)):
        yield str(value).lower()  # a number, true or false
    before, after = next((_AFFIXES[m] for m in modifiers if m in _AFFIXES), ("", ""))
    text = value if isinstance(value, str) else str(value).lower()
    if any(modifier in (*_ENCODINGS, "base64", "base64offset") for modifier in modifiers):
        for encoded in _encoded(text, modifiers):
            yield _match(f"{before}{encoded}{after}", "cased" in modifiers)
        return
    for variant in _variants(text) if "windash" in modifiers else [text]:
        yield _match(f"{before}{_protect(variant, after)}{after}", "cased" in modifiers)


def _encoded(text: str, modifiers: tuple[str, ...]) -> Iterator[str]:
    """A text as it is found within what was encoded: at any of three places, for `base64offset`."""
    if not {"base64", "base64offset"} & set(modifiers) or len(_split(text)) > 1:
        raise Unmapped("encoded value")
    [literal] = _split(text)
    coding = next((_ENCODINGS[one] for one in modifiers if one in _ENCODINGS), "utf-8")
    data = literal.encode(coding)
    if "base64" in modifiers:
        yield b64encode(data).decode()
        return
    for shift, start in enumerate((0, 2, 3)):
        end = (None, -3, -2)[(len(data) + shift) % 3]
        yield b64encode(b" " * shift + data).decode()[start:end]


def _of_regex(pattern: str, ignores_case: bool) -> Iterator[str]:
    """The tests for the texts that a regular expression finds, if they are few."""
    found = finite(pattern)
    if found is None:
        raise Unmapped("regular expression")
    for text in found.texts:
        escaped = re.sub(r"([*?\\])", r"\\\1", text)
        whole = f"{'' if found.at_start else '*'}{escaped}{'' if found.at_end else '*'}"
        yield _match(whole, not (ignores_case or found.ignores_case))


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
        return "exists"
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
    parts, at = [""], 0
    while at < len(pattern):
        char, after = pattern[at], pattern[at + 1 : at + 2]
        if char == "\\" and after in ("*", "?", "\\"):
            parts[-1] += after
            at += 1
        elif char == "?":
            raise Unmapped("wildcard for one character")
        elif char == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        else:
            parts[-1] += char
        at += 1
    return parts
