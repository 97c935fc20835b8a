"""What is built, in a form that travels: to tasks, and from the manifest of a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from matchyard.engine import Configured, configure


class Plan(NamedTuple):
    """What is built, the same in every task; plain values that travel well."""

    engine: str = "tags"
    algorithm: str | None = None
    options: Mapping[str, Any] = {}


def resolve(plan: Plan) -> Configured:
    """The engine and algorithm of a plan, with their options."""
    return configure(plan.engine, plan.algorithm, plan.options)


def plan_of(manifest: Mapping[str, Any]) -> Plan:
    """What an existing version was built by."""
    return Plan(manifest["engine"], manifest["algorithm"], manifest["options"])
