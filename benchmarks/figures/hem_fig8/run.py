"""Matching time while intervals get wider."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, falls, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    return verdict(
        *reductions(series, figure.settings["reductions"]),
        rises(series, ["tama"], "w", 1.1),
        falls(series, ["rein", "ada_rein"], "w", 0.9),
        Claim(
            f"hem varies by {max(series['hem']) / min(series['hem']):.2f}× (paper: nearly immune) and "
            f"opindex by {max(series['opindex']) / min(series['opindex']):.2f}× (paper: not affected)",
            max(max(series[name]) / min(series[name]) for name in ("hem", "opindex")) < 1.5,
        ),
        besides=ahead(series, "tiles", ["hem", "rein"]),
    )
