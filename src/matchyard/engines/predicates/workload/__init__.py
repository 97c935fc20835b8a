"""WORKLOADS: subscriptions and events by name, size and seed. Read `workload` first."""

from matchyard.engines.predicates.workload.workload import MODELS, Workload, generate

__all__ = ["MODELS", "Workload", "generate"]
