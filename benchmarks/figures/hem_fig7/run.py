"""Matching time while events grow."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, falls, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    return verdict(
        *reductions(series, figure.settings["reductions"]),
        rises(series, ["tama", "opindex"], "ψ_E", 1.1),
        falls(series, ["rein", "ada_rein"], "ψ_E", 1),
        Claim(
            f"hem itself changes by {series['hem'][-1] / series['hem'][0]:.2f}× (paper: rises slowly)",
            0.95 < series["hem"][-1] / series["hem"][0] < 2,
        ),
        besides=ahead(series, "tiles", ["hem", "rein"]),
    )
