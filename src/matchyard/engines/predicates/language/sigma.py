"""Sigma detection rules as predicates: the part of their language that has the same meaning here.

Selections of fields, lists, `contains`, `startswith`, `endswith`, `all`, `windash`, `cased`, `cidr`,
`exists`, comparisons, wildcards and `base64`, `base64offset` and `wide` are mapped; so are regular expressions that
find few texts, placeholders whose values are given, and conditions with `and`, `or`, `not` and `1 of` or `all of`
selections. Texts match whatever their case, as Sigma says. A number is matched by its text, too, since
logs write numbers as texts; `null` is an attribute that is null or absent. What a rule says about its
log source is left out. For other rules there is a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Any, NoReturn

from matchyard.engines.predicates.language.sigma_values import (
    AFFIXES,
    ANYTHING,
    COMPARISONS,
    ENCODINGS,
    FLAGS,
    OF_TEXTS,
    Unmapped,
    tests_of,
)

_REASONS = {"fieldref": "comparison of two fields"}
_PLACEHOLDER = re.compile(r"%([^%\s]+)%")
_LONGEST = 1 << 22  # characters of a predicate; of SigmaHQ's rules, the longest has 338,839
_TOO_LONG = f"a predicate of more than {_LONGEST:,} characters"
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_RESERVED = ("and", "or", "not", "exists", "true", "false")
_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")

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
    selections = _Selections(detection, placeholders or {})
    return _join(" or ", [_Condition(one, selections).read() for one in conditions])


class _Selections:
    """The selections of a rule by name; together, a condition may not name more than fits a predicate."""

    def __init__(self, detection: dict[Any, Any], placeholders: Placeholders) -> None:
        self._detection = {str(name): what for name, what in detection.items()}
        self._placeholders = placeholders
        self._texts: dict[str, str] = {}  # of selections that were named
        self._left = _LONGEST

    def like(self, pattern: str) -> list[str]:
        """The names that `1 of` a pattern means."""
        self._spend(len(self._detection))
        names = [name for name in self._detection if name not in ("condition", "timeframe")]
        if pattern.lower() == "them":
            return [name for name in names if not name.startswith("_")]
        return [name for name in names if fnmatchcase(name, pattern)]

    def text(self, name: str) -> str | None:
        """The condition of a selection; None if there is no such selection."""
        if name not in self._texts:
            if name not in self._detection:
                return None
            detection = self._detection[name]
            maps = detection if isinstance(detection, list) else [detection]
            if not all(maps) or not maps:
                raise Unmapped("empty selection")
            if not all(isinstance(one, dict) for one in maps):
                raise Unmapped("keywords")
            parts = [_map(one, self._placeholders) for one in maps]
            self._texts[name] = _join(" or ", parts)
        self._spend(len(self._texts[name]))
        return self._texts[name]

    def _spend(self, n_characters: int) -> None:
        self._left -= n_characters
        if self._left < 0:
            raise Unmapped(_TOO_LONG)


class _Condition:
    """A condition on selections, such as `selection and not 1 of filter_*`."""

    def __init__(self, text: str, selections: _Selections) -> None:
        if "|" in text:
            raise Unmapped("aggregation")
        self._tokens, self._at, self._selections = _TOKEN.findall(text), 0, selections

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
        names = self._selections.like(pattern)
        if not names:
            self._fail()
        parts = [self._selection(name) for name in names]
        return _join(" and " if how_many == "all" else " or ", parts)

    def _selection(self, name: str) -> str:
        text = self._selections.text(name)
        return self._fail() if text is None else text


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


_KINDS = {*AFFIXES, *COMPARISONS, "cidr", "exists", "re"}  # a value is compared in one way
_KNOWN = {*_KINDS, *OF_TEXTS, *FLAGS, "all", "expand"}


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
        _short(_expanded(one, placeholders))
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
    of_texts = [one for one in modifiers if one in OF_TEXTS]
    is_encoded_first = "windash" in of_texts and of_texts[0] != "windash" and of_texts[0] != "cased"
    is_odd = len(kinds) > 1 or (of_texts and kinds and kinds[0] not in AFFIXES)
    # A coding of characters comes before the one of bytes.
    at = {one: place for place, one in enumerate(of_texts)}
    in_base64 = min((at[one] for one in ("base64", "base64offset") if one in at), default=len(at))
    is_odd = is_odd or any(at[one] > in_base64 for one in ENCODINGS if one in at)
    if is_odd or is_encoded_first or (set(modifiers) & set(FLAGS) and "re" not in modifiers):
        raise Unmapped(f"modifiers {'|'.join(modifiers)}")


def _expanded(text: str, placeholders: Placeholders) -> Iterator[str]:
    """A text with each value of its placeholders."""
    first, *others = _PLACEHOLDER.split(text)
    names, literals = others[::2], others[1::2]
    for name in names:
        if name not in placeholders:
            raise Unmapped(f"placeholder %{name}%")
    for values in product(*(listed(placeholders[name]) for name in reversed(names))):
        pairs = zip(reversed(values), literals, strict=True)
        yield first + "".join(f"{value}{literal}" for value, literal in pairs)


def _short(texts: Iterable[str]) -> list[str]:
    """The texts, if they are not too long for a predicate."""
    taken, size = [], 0
    for text in texts:
        taken.append(text)
        size += len(text) + 1
        if size > _LONGEST:
            raise Unmapped(_TOO_LONG)
    return taken


def _quoted_name(name: str) -> str:
    if _NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _one_of(name: str, modifiers: tuple[str, ...], values: list[Any]) -> str:
    if not values:
        raise Unmapped("empty list")
    parts = [_not(f"exists {name}")] if None in values else []
    tests = dict.fromkeys(_short(test for value in values for test in tests_of(modifiers, value)))
    if ANYTHING in tests:  # but null, which is like an attribute that is absent
        del tests[ANYTHING]
        parts.append(f"exists {name} and not ({name} = null)")
    if tests:
        parts.append(f"{name} in {{{', '.join(tests)}}}")
    return _join(" or ", parts)
