"""Matching time while events grow."""

from matchyard.bench import sweeps
from matchyard.bench.figures.claims import Claim, ahead, falls, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    found = ys(rows)
    return verdict(
        *reductions(found, figure.settings["reductions"]),
        rises(found, ["tama", "opindex"], "ψ_E", 1.1),
        falls(found, ["rein", "ada_rein"], "ψ_E", 1),
        Claim(
            f"hem itself changes by {found['hem'][-1] / found['hem'][0]:.2f}× (paper: rises slowly)",
            0.95 < found["hem"][-1] / found["hem"][0] < 2,
        ),
        besides=ahead(found, "tiles", ["hem", "rein"]),
    )
