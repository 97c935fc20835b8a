"""WORKLOADS: twigs and documents, drawn from a document type definition or recorded.

Read `generated.py` first.
"""

from matchyard.engines.twigs.workload.workload import MODELS, Workload, generate

__all__ = ["MODELS", "Workload", "generate"]
