"""Processing time by filters per interface."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, rises, speedups, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    speedup, ours = speedups(figure, series, "counting", "sff")
    return verdict(
        rises(series, ["sff", "counting"], "filters", 5),
        Claim(
            f"{ours} is {speedup[0]:.2g}× to {speedup[-1]:.2g}× as fast as sff (paper: 13× with 250 k filters, on a GPU)",
            speedup[-1] > max(1, speedup[0]),
        ),
        Claim(
            f"with fewest filters sff takes {speedup[0]:.2f}× as long as {ours} (paper: less, below "
            "1000)",
            speedup[0] < 1,
        ),
        besides=ahead(series, "tiles", ["counting", "sff"]),
    )
