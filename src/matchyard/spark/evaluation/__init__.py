"""What an index makes of events: counts, scores, reasons, and a page of them."""

from matchyard.spark.evaluation.evaluation import Evaluation, evaluate, explain

__all__ = ["Evaluation", "evaluate", "explain"]
