"""Matching time while intervals get wider."""

from matchyard.bench import sweeps
from matchyard.bench.figures.claims import Claim, ahead, falls, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    found = ys(rows)
    return verdict(
        *reductions(found, figure.settings["reductions"]),
        rises(found, ["tama"], "w", 1.1),
        falls(found, ["rein", "ada_rein"], "w", 0.9),
        Claim(
            f"hem varies by {max(found['hem']) / min(found['hem']):.2f}× (paper: nearly immune) and "
            f"opindex by {max(found['opindex']) / min(found['opindex']):.2f}× (paper: not affected)",
            max(max(found[name]) / min(found[name]) for name in ("hem", "opindex")) < 1.5,
        ),
        besides=ahead(found, "tiles", ["hem", "rein"]),
    )
