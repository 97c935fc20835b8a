"""Read Sigma rules: documents of YAML ─▶ rules as predicates, and the others with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.engines.predicates.language.language import parse
from matchyard.engines.predicates.language.sigma import Placeholders, listed, translate
from matchyard.engines.predicates.language.sigma_files import documents
from matchyard.engines.predicates.language.sigma_values import Unmapped
from matchyard.errors import ParseError, UsageError

_PLACE = re.compile(r"^not a predicate: (?:line \d+, )?(?:column \d+: )?")


class Rule(NamedTuple):
    """A rule that was mapped."""

    title: str
    text: str  # in the language of predicates
    id: str
    level: str
    status: str
    tags: tuple[str, ...]
    product: str  # of its log source; these three may be empty
    category: str
    service: str
    file: str


class Left(NamedTuple):
    """A rule that was not mapped."""

    title: str
    reason: str
    id: str
    file: str


def read(
    path: Path, placeholders: Placeholders | None = None, products: Sequence[str] = ()
) -> tuple[list[Rule], list[Left]]:
    """The rules of a folder, a file or an archive that can be mapped, in order of their titles, and the others.

    If products are given, rules for logs of other products are in neither list.
    """
    rules, left = [], []
    files: dict[str, str] = {}  # of each id
    wanted, known = {one.casefold() for one in products}, set()
    found = list(documents(path))
    in_correlations = _named_by_correlations(document for _, document in found)
    for file, document in found:
        if isinstance(document, str):
            left.append(Left(file, document, file, file))
            continue
        title, number = _text(document.get("title")) or file, _id_of(document, file, files)
        product, category, service = _texts(
            document.get("logsource"), "product", "category", "service"
        )
        known.add(product.casefold())
        if wanted and product and product.casefold() not in wanted:
            continue
        try:
            if "detection" not in document:
                what = next((one for one in ("correlation", "filter") if one in document), None)
                raise Unmapped(f"{what} of rules" if what else "no detection")
            if {number, document.get("name")} & in_correlations:
                raise Unmapped("part of a correlation of rules")
            text = translate(document["detection"], placeholders)
            parse(text)
            if number in files:
                raise Unmapped(f"its id is that of a rule in {files[number]}")
        except Unmapped as reason:
            left.append(Left(title, str(reason), number, file))
            continue
        except ParseError as error:  # of a value that predicates do not have
            said = _PLACE.sub("", str(error).partition("\n")[0])
            left.append(Left(title, f"value that predicates do not have ({said})", number, file))
            continue
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            left.append(Left(title, f"not a rule: {error}", number, file))
            continue
        files[number] = file
        level, status = _texts(document, "level", "status")
        tags = tuple(filter(None, map(_text, listed(document.get("tags")))))
        rules.append(
            Rule(title, text, number, level, status, tags, product, category, service, file)
        )
    unknown = wanted - known
    if unknown and known > {""}:
        others = ", ".join(sorted(known - {""}))
        raise UsageError(f"no rule is for the product {min(unknown)!r}; found: {others}")
    return sorted(rules), sorted(left)


def _named_by_correlations(found: Iterable[dict[str, Any] | str]) -> set[Any]:
    """The names and ids of rules that are steps of a correlation, and say nothing alone."""
    named: set[Any] = set()
    for document in found:
        correlation = document.get("correlation") if isinstance(document, dict) else None
        if isinstance(correlation, dict) and correlation.get("generate") is not True:
            named |= set(map(_text, listed(correlation.get("rules"))))
    return named


def _id_of(document: dict[str, Any], file: str, taken: Collection[str]) -> str:
    """The id of a rule; without one, the name of its file, with a number if that has several rules."""
    if number := _text(document.get("id")):
        return number
    names = (f"{file}#{number}" if number else file for number in count())
    return next(name for name in names if name not in taken)


def _texts(fields: Any, *names: str) -> tuple[str, ...]:
    """Some fields of a map as texts; empty where they are missing."""
    known = fields if isinstance(fields, dict) else {}
    return tuple(_text(known.get(name)) for name in names)


def _text(value: Any) -> str:
    """A value as text; empty for what is missing, and for lists and maps, which can be deep."""
    return (
        ""
        if not value or (isinstance(value, Collection) and not isinstance(value, str))
        else str(value)
    )
