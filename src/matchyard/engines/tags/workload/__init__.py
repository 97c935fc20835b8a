"""Workloads of tags as in the papers, by name, size and seed. Read `workload.py` first."""

from matchyard.engines.tags.workload.workload import MODELS, Workload, generate

__all__ = ["MODELS", "Workload", "generate"]
