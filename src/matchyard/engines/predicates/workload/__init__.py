"""WORKLOADS: subscriptions and events as in the papers and as recorded, by name, size and seed."""

from matchyard.engines.predicates.workload.workload import MODELS, Workload, generate

__all__ = ["MODELS", "Workload", "generate"]
