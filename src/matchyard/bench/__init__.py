"""Benchmarks: compare algorithms on one workload in one run, and reproduce the papers' figures."""

from matchyard.bench.compare.harness import Result, compare

__all__ = ["Result", "compare", "demo", "figures", "rivals"]
