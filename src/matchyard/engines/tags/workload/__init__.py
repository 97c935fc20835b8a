"""WORKLOADS: subscriptions and events as in the papers, by name, size and seed."""

from matchyard.engines.tags.workload.workload import MODELS, Workload, generate

__all__ = ["MODELS", "Workload", "generate"]
