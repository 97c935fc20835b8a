"""Read Sigma rules: folders, YAML files and archives ─▶ rules as predicates, and the others with reasons."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import count
from lzma import LZMAError
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.engines.predicates.language.language import parse
from matchyard.engines.predicates.language.sigma import Placeholders, Unmapped, listed, translate
from matchyard.errors import ParseError, UsageError

_OF_RULES = {
    "detection",
    "correlation",
    "filter",
    "title",
    "logsource",
}  # keys of rules, and of no other documents


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
    documents = list(_documents(path))
    in_correlations = _named_by_correlations(document for _, document in documents)
    for file, document in documents:
        if isinstance(document, str):
            left.append(Left(file, document, file, file))
            continue
        title, number = str(document.get("title") or file), _id_of(document, file, files)
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
        tags = tuple(map(str, listed(document.get("tags"))))
        rules.append(
            Rule(title, text, number, level, status, tags, product, category, service, file)
        )
    unknown = wanted - known
    if unknown and known > {""}:
        found = ", ".join(sorted(known - {""}))
        raise UsageError(f"no rule is for the product {min(unknown)!r}; found: {found}")
    return sorted(rules), sorted(left)


def _named_by_correlations(documents: Iterable[dict[str, Any] | str]) -> set[Any]:
    """The names and ids of rules that are steps of a correlation, and say nothing alone."""
    named: set[Any] = set()
    for document in documents:
        correlation = document.get("correlation") if isinstance(document, dict) else None
        if isinstance(correlation, dict) and correlation.get("generate") is not True:
            named |= set(map(str, listed(correlation.get("rules"))))
    return named


def _id_of(document: dict[str, Any], file: str, taken: Collection[str]) -> str:
    """The id of a rule; without one, the name of its file, with a number if that has several rules."""
    if document.get("id"):
        return str(document["id"])
    names = (f"{file}#{number}" if number else file for number in count())
    return next(name for name in names if name not in taken)


def _texts(fields: Any, *names: str) -> tuple[str, ...]:
    """Some fields of a map as texts; empty where they are missing."""
    known = fields if isinstance(fields, dict) else {}
    return tuple(str(known.get(name) or "") for name in names)


def _documents(path: Path) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """The documents of YAML files, each with the name of its file; of a broken file, the reason."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise UsageError(
            "Sigma rules are YAML: install PyYAML, e.g. pip install 'matchyard[sigma]'"
        ) from None
    loader = _strict(yaml)
    for name, content in _files(path):
        try:
            documents = list(yaml.load_all(content, loader))
            is_collection = any(isinstance(one, dict) and "action" in one for one in documents)
            for document in documents:
                if isinstance(document, list) and any(isinstance(one, dict) for one in document):
                    yield name, "a list; expected one rule in each document"
                elif isinstance(document, dict) and _OF_RULES & set(document):
                    yield name, "collection with actions" if is_collection else document
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            yield name, f"no YAML: {str(error).splitlines()[0]}"


def _strict(yaml: Any) -> Any:
    """A loader of YAML that refuses a map with one key twice, which would lose a part of a rule."""
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc, valid-type]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    raise yaml.YAMLError(f"the key {key.value!r} is there twice")
                seen.add((key.tag, str(key.value)))
            return super().construct_mapping(node, deep)

    return Loader


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if _is_yaml(file) and file.is_file():
                yield str(file.relative_to(path)), file.read_bytes()
    elif _is_yaml(path) and path.is_file():
        yield path.name, path.read_bytes()
    elif path.exists():
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    if _is_yaml(Path(member.name)) and member.isfile():
                        content = archive.extractfile(member)
                        assert content is not None  # of a file
                        yield member.name, content.read()
        except (tarfile.TarError, EOFError, OSError, LZMAError, zlib.error) as error:
            reason = str(error).partition(":\n")[
                0
            ]  # without a line for each compression that was tried
            raise UsageError(
                f"{path} is no folder, YAML file or archive of rules: {reason}"
            ) from None
    else:
        raise UsageError(f"{path} does not exist; expected a folder of Sigma rules")


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in (".yml", ".yaml")
