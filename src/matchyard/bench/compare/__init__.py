"""Algorithms, revisions and rivals, measured in one run."""

__all__ = [
    "against", "harness", "latency", "machine", "report", "spark_jobs", "twigs", "twigs_report",
]  # fmt: skip
