"""auto: a scan for few filters, `tiles` for many [CCM §5, closing remark].

A scan of a handful of filters costs less than any look-up; docs/predicates-internals.md has the
measurements. With a GPU, large batches go to the card (`gpu`).
"""

from __future__ import annotations

from typing import NamedTuple

from matchyard.engines.predicates.algorithms.tiles.tiles import (
    SUPPORTS,
    Finder,
    Table,
    Workspace,
    check,
    compile,
    estimate,
    inspect,
    match,
    match_unique,
    subscriptions,
    workspace,
)

__all__ = [
    "DEVICES",
    "SMALL",
    "SUPPORTS",
    "Finder",
    "Options",
    "Table",
    "Workspace",
    "check",
    "compile",
    "estimate",
    "inspect",
    "match",
    "match_unique",
    "subscriptions",
    "workspace",
]

DEVICES = ("cpu", "gpu")
SMALL = 8  # filters up to which all are scanned


class Options(NamedTuple):
    """The options of `tiles`."""

    cells: int = 32
    survivors: float = 0.1
    dense: float = 1.0
    small: int = SMALL
