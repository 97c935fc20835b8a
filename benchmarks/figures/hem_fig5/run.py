"""Matching time while the number of subscriptions grows."""

from matchyard.bench import sweeps
from matchyard.bench.figures.claims import ahead, in_panel, reduced, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    found, real = (ys(in_panel(rows, panel)) for panel in ("hem", "kdd"))
    return verdict(
        *reductions(found, figure.settings["reductions"]),
        rises(found, ["hem", *figure.settings["reductions"]], "n", 2),
        besides=ahead(found, "tiles", ["hem", "rein"]) + reduced(real, "kdd"),
    )
