"""The steps that figures are made of: an index over a workload, and its speed."""

from __future__ import annotations

from typing import Any

import matchyard as my
from matchyard.bench import harness


def prepared(
    workload: str,
    size: int,
    algorithm: str = "rarest",
    options: dict[str, Any] | None = None,
    extra_tags: int | None = None,
    seed: int = 1,
) -> tuple[Any, Any]:
    """An index over a workload, and the workload itself; kernels are compiled already."""
    source = my.workload("tags", workload, size, seed, extra_tags)
    index = my.TagIndex(algorithm, options)
    harness.warm_up(index, source, 1)
    for tags, keys in source.chunks():
        index.add_many(tags, keys)
    return index.consolidate(), source


def speed(
    index: Any, source: Any, threads: int, verb: str = "match", passes: int = 3
) -> harness.Result:
    """The index's speed on the workload's events."""
    return harness.measure(
        index, source, index.algorithm, 0.0, threads, index.device, None, passes, verb
    )
