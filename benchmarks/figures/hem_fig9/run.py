"""Matching time by number of attributes; an event has 20 of them."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, falls, rises, verdict, ys
from matchyard.bench.figures.plots import series_of

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    places = [row["x"] for row in series_of(rows)["hem"]]
    behind = [tama / hem for tama, hem in zip(series["tama"], series["hem"])]
    best = [x for x, share in zip(places, behind) if share < 1]
    said = f"from d = {best[0]} on" if best else "nowhere"
    return verdict(
        Claim(
            f"tama goes from {behind[0]:.2g}× to {behind[-1]:.2g}× the time of hem and is ahead of "
            f"it {said} (paper: from 300 on)",
            behind[-1] < 1 < behind[0] or behind[-1] < behind[0] / 2,
        ),
        Claim("hem is ahead of tama at d = 30 (paper: the same)", behind[0] > 1),
        falls(series, ["tama", "opindex"], "d", 0.9),
        rises(series, ["hem", "rein", "ada_rein"], "d", 1),
        besides=ahead(series, "tiles", ["hem", "tama"]),
    )
