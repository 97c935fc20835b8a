"""WORKLOADS: subscriptions and events as in the papers and as recorded, by name, size and seed.

A workload's parameters have the papers' defaults; `parameters` overrides any of them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matchyard.engines.predicates.workload.generated import (
    Ccm,
    Hem,
    Interfaces,
    Intervals,
    Json,
    Rules,
    Workload,
)
from matchyard.engines.predicates.workload.recorded import Connections, Detections, Kdd, Sigma
from matchyard.errors import UsageError

MODELS: dict[str, Any] = {
    "hem": Hem(),
    "ccm": Ccm(),
    "ccm-zipf": Ccm(alpha=1.7),  # half of all constraints are on one name, as the paper says
    "json-eq": Json(ranges=False),
    "json-range": Json(ranges=True),
    "kdd": Kdd(),
    "sigma": Sigma(),
}
_KINDS: dict[type[Any], type[Workload]] = {
    Hem: Intervals,
    Ccm: Interfaces,
    Json: Rules,
    Kdd: Connections,
    Sigma: Detections,
}


def generate(
    name: str = "hem",
    size: int = 1_000_000,
    seed: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Workload:
    """The workload of that name; `parameters` overrides what its model says.

    >>> generate("hem", size=1000, parameters={"attributes": 900}).model.attributes
    900
    """
    if name not in MODELS:
        raise UsageError(f"no predicates workload {name!r}; expected one of: {', '.join(MODELS)}")
    if size < 1:
        raise UsageError(f"a workload needs at least one subscription, not {size}")
    model = MODELS[name]
    for parameter in parameters or {}:
        if parameter not in model._fields:
            known = ", ".join(model._fields) or "none"
            raise UsageError(f"workload {name!r} has no parameter {parameter!r}; it has: {known}")
    return _KINDS[type(model)](name, size, seed, model._replace(**(parameters or {})))
