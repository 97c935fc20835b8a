"""WORKLOADS: twigs and documents, drawn from a document type definition or recorded.

Read `generated.py` first.
"""

from matchyard.engines.twigs.workload.workload import MODELS, generate
from matchyard.engines.workloads import Workload

__all__ = ["MODELS", "Workload", "generate"]
