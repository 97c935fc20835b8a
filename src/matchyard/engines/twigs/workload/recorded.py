"""The real pair, read from the folder that the variable MATCHYARD_DATA names.

`docbook` are the handbooks of KDE, and the match patterns of the style sheets of DocBook.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.archives import members
from matchyard.engines.workloads import Workload, path_of
from matchyard.errors import ParseError

_MOST = 1 << 24  # bytes of a handbook; the longest has 0.5 MB


class Recorded(NamedTuple):
    """Nothing can be set: patterns and documents are as they were written."""


@cache
def _handbooks(path: Path) -> tuple[pa.Array, tuple[str, ...]]:
    """All documents of an archive, and their names, in its order."""
    names, documents = [], []
    for name, document in members(path, lambda name: name.endswith(".docbook"), _MOST):
        names.append(name)
        documents.append(document)
    return pa.array(documents, pa.binary()), tuple(names)


@cache
def _patterns(path: Path) -> tuple[tuple[str, ...], dict[str, int]]:
    """The patterns that are twigs, and counts of the others by unsupported part."""
    from matchyard.engines.twigs.language import parse

    supported, unsupported = [], Counter[str]()
    for line in path.read_text("utf-8").splitlines():
        _, _, pattern = line.partition("\t")
        try:
            parse(pattern)
        except ParseError as error:
            unsupported[getattr(error, "part", "other")] += 1
        else:
            supported.append(pattern)
    return tuple(supported), dict(unsupported.most_common())


class Handbooks(Workload):
    """`docbook`: the patterns that are twigs; a pattern's key is its number among these.

    `names` are the names of the documents. `unsupported` counts the other patterns by the part of
    XPath that twigs lack. The handbooks refer to entities of a document type that is not available.
    """

    options = MappingProxyType({"undefined_entities": "skip"})

    def _check(self, model: Any) -> None:
        patterns, self.unsupported = _patterns(path_of("xml", "xpath_patterns.txt"))
        self.n_patterns = len(patterns)
        self.size = min(self.size, self.n_patterns)
        self._patterns = pa.array(patterns[: self.size])
        self._documents, self.names = _handbooks(path_of("xml", "kde_docbook.tar.xz"))

    def about(self) -> str:
        """How many patterns are twigs, and which parts of XPath the others use."""
        others = ", ".join(f"{part} {number}" for part, number in self.unsupported.items())
        n_all = self.n_patterns + sum(self.unsupported.values())
        return f"{self.n_patterns:,} of {n_all:,} patterns are twigs; not in twigs: {others}"

    @property
    def n_events(self) -> int:
        """How many documents there are."""
        return len(self._documents)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Patterns `start` … `stop`-1 as they were written."""
        stop = min(stop, self.size)
        return self._patterns[start:stop], np.arange(start, stop)

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Documents from `start` on; after the last comes the first again."""
        return self._documents.take(pa.array(np.arange(start, start + n_events) % self.n_events))
