"""WORKLOADS: subscriptions and events by name, size and seed. Read `workload` first."""

from matchyard.engines.predicates.workload.generated import Workload
from matchyard.engines.predicates.workload.workload import MODELS, generate

__all__ = ["MODELS", "Workload", "generate"]
