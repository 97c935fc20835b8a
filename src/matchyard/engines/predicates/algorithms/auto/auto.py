"""auto: the plain path for few filters, `tiles` for many [CCM §5, closing remark].

With a handful of filters, comparing an event with all of them one by one costs less than looking
anything up; docs/predicates-internals.md has the measurements. With a GPU, many events go there
(`gpu`).
"""

from __future__ import annotations

from typing import NamedTuple

from matchyard.engines.predicates.algorithms.tiles.tiles import (
    SUPPORTS,
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
SMALL = 8  # filters up to which none is looked up


class Options(NamedTuple):
    """What can be set; as of `tiles`."""

    cells: int = 32
    survivors: float = 0.1
    dense: float = 1.0
    small: int = SMALL
