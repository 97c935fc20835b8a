"""Matching time while the number of subscriptions grows."""

from matchyard.bench import sweeps
from matchyard.bench.claims import ahead, reductions, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    found = ys(rows)
    return verdict(
        *reductions(found, figure.settings["reductions"]),
        rises(found, ["hem", *figure.settings["reductions"]], "n", 2),
        besides=ahead(found, "tiles", ["hem", "rein"]),
    )
