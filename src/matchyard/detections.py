"""Sigma: detection rules for logs, as an index of predicates whose keys are the ids of the rules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from matchyard.engines.predicates.language import sigma_rules as language
from matchyard.errors import UsageError
from matchyard.kinds import PredicateIndex
from matchyard.storage.file_places import below, create_file, exists, open_file

_RULES = "rules.parquet"  # beside the versions of an index
_TEXTS = ("id", "title", "level", "status", "product", "category", "service", "text", "file")
_COLUMNS = pa.schema([*((name, pa.string()) for name in _TEXTS), ("tags", pa.list_(pa.string()))])


@dataclass(frozen=True)
class Detections:
    """The rules of a collection that can be matched, and those that cannot, each with the reason."""

    rules: tuple[language.Rule, ...]
    left: tuple[language.Left, ...]

    def index(self, live: bool = False, threads: int = 1) -> PredicateIndex:
        """An index of the rules; the keys are their ids."""
        index = PredicateIndex(live=live, threads=threads)
        index.add_many([rule.text for rule in self.rules], [rule.id for rule in self.rules])
        return index.consolidate()

    def table(self) -> pa.Table:
        """The rules, a row each: id, title, level, status, tags, log source, predicate and file."""
        arrays = [
            pa.array([getattr(rule, name) for rule in self.rules], kind)
            for name, kind in zip(_COLUMNS.names, _COLUMNS.types, strict=True)
        ]
        return pa.table(dict(zip(_COLUMNS.names, arrays, strict=True)))

    def save(self, path: str | os.PathLike[str]) -> PredicateIndex:
        """Save the index, with the table of the rules as `rules.parquet` in its folder.

        The table also has the rules of earlier versions, with `current` false: somebody may still
        hold alerts of theirs.
        """
        if not self.rules:
            raise UsageError(f"none of the {len(self.left)} rules can be matched: see `left`")
        place = below(os.fspath(path), _RULES)
        is_there = exists(place)
        if is_there:  # a reader of the new version then finds its rules
            self._write(place)
        index = self.index().save(path)
        if not is_there:  # before the index, this file would make its folder that of somebody else
            self._write(place)
        return index

    def _write(self, place: str) -> None:
        import pyarrow.parquet as pq  # it would make every import of this package slower

        rules = self.table().append_column("current", pa.repeat(True, len(self.rules)))
        if exists(place):
            with open_file(place) as file:
                before = pq.read_table(file)
            is_gone = pc.invert(pc.is_in(before["id"], rules["id"].combine_chunks()))
            gone = before.filter(is_gone).select(_COLUMNS.names)
            rules = pa.concat_tables(
                [rules, gone.append_column("current", pa.repeat(False, len(gone)))]
            )
        with create_file(place) as file:
            pq.write_table(rules, file)


def sigma(
    path: str | os.PathLike[str],
    placeholders: Mapping[str, Sequence[str]] | None = None,
    product: str | Sequence[str] = (),
) -> Detections:
    """Read Sigma rules: a folder of YAML files, one file, or an archive (.tar.gz, .tar.xz).

    `placeholders` are the values of names such as `%Workstations%` in rules. `product`, such as "windows", leaves
    out the rules for logs of other products; rules that name no product stay. A rule that predicates cannot
    express is in `left`, with the reason.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "whoami.yml").write_text(\"\"\"
    ... title: Who am I
    ... id: 7ef7
    ... detection: {selection: {Image|endswith: whoami.exe}, condition: selection}
    ... \"\"\")
    >>> index = sigma(folder).index()
    >>> index.match_one({"Image": "C:/Windows/WHOAMI.EXE"})
    ['7ef7']
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(f"not a path of Sigma rules: {path!r}; expected e.g. 'rules/'")
    products = (product,) if isinstance(product, str) else tuple(product)
    rules, left = language.read(Path(os.fspath(path)), placeholders, products)
    if not rules and not left:
        raise UsageError(f"{os.fspath(path)} has no Sigma rules: files that end in .yml")
    return Detections(tuple(rules), tuple(left))
