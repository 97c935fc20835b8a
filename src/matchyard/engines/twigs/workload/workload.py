"""WORKLOADS: twigs and documents by name, size and seed, drawn from a definition or recorded.

A workload's parameters have the paper's defaults; `parameters` overrides any of them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matchyard.engines.twigs.workload.generated import Drawn, Generated
from matchyard.engines.twigs.workload.recorded import Handbooks, Recorded
from matchyard.engines.workloads import Workload
from matchyard.errors import UsageError

MODELS: dict[str, Any] = {"dblp": Generated(), "dtd": Generated(), "docbook": Recorded()}
_KINDS: dict[type[Any], type[Workload]] = {Generated: Drawn, Recorded: Handbooks}


def generate(
    name: str = "dblp",
    size: int = 2_000,
    seed: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Workload:
    """The workload with a name; `parameters` overrides values of its model.

    >>> generate("dblp", size=100, parameters={"nodes": 5, "splits": 1}).model.nodes
    5
    """
    if name not in MODELS:
        raise UsageError(f"no twigs workload {name!r}; expected one of: {', '.join(MODELS)}")
    if size < 1:
        raise UsageError(f"a workload needs at least one subscription, not {size}")
    model, given = MODELS[name], parameters or {}
    for parameter, value in given.items():
        if parameter not in model._fields:
            known = ", ".join(model._fields) or "none"
            raise UsageError(f"workload {name!r} has no parameter {parameter!r}; it has: {known}")
        if not _fits(value, getattr(model, parameter)):
            kind = type(getattr(model, parameter)).__name__
            raise UsageError(f"parameter {parameter!r} takes {kind}, not {value!r}")
    return _KINDS[type(model)](name, size, seed, model._replace(**given))


def _fits(value: Any, default: Any) -> bool:
    """True if a value has the type of the default. An integer may be a float, but not a flag."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))
