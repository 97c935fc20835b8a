"""The plan of a build, which tasks receive and manifests contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from matchyard.engine import Configured, configure


class Plan(NamedTuple):
    """The engine, algorithm and options of a build, as plain values; the same in every task."""

    engine: str = "tags"
    algorithm: str | None = None
    options: Mapping[str, Any] = {}


def resolve(plan: Plan) -> Configured:
    """The engine and algorithm of a plan, with their options."""
    return configure(plan.engine, plan.algorithm, plan.options)


def plan_of(manifest: Mapping[str, Any]) -> Plan:
    """The plan by which an existing version was built."""
    return Plan(manifest["engine"], manifest["algorithm"], manifest["options"])
