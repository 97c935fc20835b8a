"""Matching time while the number of subscriptions grows."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import ahead, in_panel, reduced, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series, real = (ys(in_panel(rows, panel)) for panel in ("hem", "kdd"))
    return verdict(
        *reductions(series, figure.settings["reductions"]),
        rises(series, ["hem", *figure.settings["reductions"]], "n", 2),
        besides=ahead(series, "tiles", ["hem", "rein"]) + reduced(real, "kdd"),
    )
