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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_ANYTHING = "exists"
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
    """Several values as a list, and one value as a list of it; nothing for null."""
    if value is None:
        return []
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    is_one = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
    return [value] if is_one else list(value)


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
        if not all(maps) or not maps:
            raise Unmapped("empty selection")
        if not all(isinstance(one, dict) for one in maps):
            raise Unmapped("keywords")
        return _join(" or ", [_map(one, self._placeholders) for one in maps])


def _join(word: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else word.join(f"({part})" for part in parts)


def _not(part: str) -> str:
    return f"not ({part})"


def _map(fields: dict[str, Any], placeholders: Placeholders) -> str:
    if not all(isinstance(key, str) for key in fields):
        raise Unmapped("name of a field that is no text")
    parts = [
        _field(*key.split("|"), value=value, placeholders=placeholders)
        for key, value in fields.items()
    ]
    return _join(" and ", parts)


_KINDS = {*_AFFIXES, *_COMPARISONS, "cidr", "exists", "re"}  # a value is compared in one way
_OF_TEXTS = {*_ENCODINGS, "base64", "base64offset", "cased", "windash"}
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}  # of regular expressions
_KNOWN = {*_KINDS, *_OF_TEXTS, *_FLAGS, "all", "expand"}


def _field(name: str, *modifiers: str, value: Any, placeholders: Placeholders) -> str:
    """The condition that a field with its modifiers stands for."""
    if not name:
        raise Unmapped("keywords")
    for modifier in modifiers:
        if modifier not in _KNOWN:
            raise Unmapped(_REASONS.get(modifier, f"modifier {modifier!r}"))
    _check_together(modifiers)
    name = _quoted_name(name)
    if "exists" in modifiers:
        word = str(value).lower()
        if word not in ("true", "yes", "false", "no"):
            raise Unmapped("value of exists")
        return f"exists {name}" if word in ("true", "yes") else _not(f"exists {name}")
    values = list(value) if isinstance(value, list) else [value]
    if not all(one is None or isinstance(one, str | int | float) for one in values):
        raise Unmapped("value that is neither text nor number")
    ways = [
        list(_expanded(one, placeholders))
        if "expand" in modifiers and isinstance(one, str)
        else [one]
        for one in values
    ]  # of each value
    if "all" in modifiers and ways:
        return _join(" and ", [_one_of(name, modifiers, some) for some in ways])
    return _one_of(name, modifiers, [one for some in ways for one in some])


def _check_together(modifiers: Sequence[str]) -> None:
    """Refuse modifiers that are not mapped together."""
    kinds = [one for one in modifiers if one in _KINDS]
    of_texts = [one for one in modifiers if one in _OF_TEXTS]
    is_encoded_first = "windash" in of_texts and of_texts[0] != "windash" and of_texts[0] != "cased"
    is_odd = len(kinds) > 1 or (of_texts and kinds and kinds[0] not in _AFFIXES)
    # A coding of characters comes before the one of bytes.
    at = {one: place for place, one in enumerate(of_texts)}
    in_base64 = min((at[one] for one in ("base64", "base64offset") if one in at), default=len(at))
    is_odd = is_odd or any(at[one] > in_base64 for one in _ENCODINGS if one in at)
    if is_odd or is_encoded_first or (set(modifiers) & set(_FLAGS) and "re" not in modifiers):
        raise Unmapped(f"modifiers {'|'.join(modifiers)}")


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
    if _ANYTHING in tests:  # but null, which is like an attribute that is absent
        del tests[_ANYTHING]
        parts.append(f"exists {name} and not ({name} = null)")
    if tests:
        parts.append(f"{name} in {{{', '.join(tests)}}}")
    return _join(" or ", parts)


def _tests(modifiers: tuple[str, ...], value: Any) -> Iterator[str]:
    """The tests of one value, as they stand in a set."""
    for modifier in modifiers:
        if modifier in _COMPARISONS:
            number = _typed(str(value))
            if number is None or number in ("true", "false"):
                raise Unmapped("comparison with a text")
            yield f"{_COMPARISONS[modifier]} {number}"
            return
    if "cidr" in modifiers:
        yield f"cidr {json.dumps(value)}"
        return
    if "re" in modifiers:
        yield from _of_regex(str(value), sum(_FLAGS[one] for one in set(modifiers) & set(_FLAGS)))
        return
    is_plain = not set(modifiers) & {*_AFFIXES, *_OF_TEXTS}
    is_encoded = bool(set(modifiers) & {*_ENCODINGS, "base64", "base64offset"})
    typed = is_plain and _typed(value) if isinstance(value, str) else str(value).lower()
    if typed and not is_encoded:
        yield typed
    before, after = next((_AFFIXES[m] for m in modifiers if m in _AFFIXES), ("", ""))
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
    coding = next((_ENCODINGS[one] for one in modifiers if one in _ENCODINGS), "utf-8")
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
        return _ANYTHING
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
