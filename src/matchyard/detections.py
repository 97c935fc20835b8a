"""Sigma: detection rules for logs, as an index of predicates whose keys are the ids of the rules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from matchyard.engines.predicates.language import sigma_rules as language
from matchyard.errors import UsageError
from matchyard.kinds import PredicateIndex
from matchyard.storage.file_places import below, create_file

_RULES = "rules.parquet"  # beside the versions of an index


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
        """Id, title, level, status, tags and predicate of each rule, and the file that it is from."""
        columns = ("id", "title", "level", "status", "tags", "text", "file")
        kinds = [pa.list_(pa.string()) if name == "tags" else pa.string() for name in columns]
        arrays = [
            pa.array([getattr(rule, name) for rule in self.rules], kind)
            for name, kind in zip(columns, kinds, strict=True)
        ]
        return pa.table(dict(zip(columns, arrays, strict=True)))

    def save(self, path: str | os.PathLike[str]) -> PredicateIndex:
        """Save the index, with the table of the rules as `rules.parquet` in its folder."""
        import pyarrow.parquet as pq  # it would make every import of this package slower

        place = os.fspath(path)
        index = self.index().save(path)
        with create_file(below(place, _RULES)) as file:
            pq.write_table(self.table(), file)
        return index


def sigma(
    path: str | os.PathLike[str], placeholders: Mapping[str, Sequence[str]] | None = None
) -> Detections:
    """Read Sigma rules: a folder of YAML files, one file, or an archive (.tar.gz, .tar.xz).

    `placeholders` are the values of names such as `%Workstations%` in rules. A rule that predicates cannot say
    is in `left`, with the reason.

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
    rules, left = language.read(Path(os.fspath(path)), placeholders)
    if not rules and not left:
        raise UsageError(f"{os.fspath(path)} has no Sigma rules: files that end in .yml")
    return Detections(tuple(rules), tuple(left))
