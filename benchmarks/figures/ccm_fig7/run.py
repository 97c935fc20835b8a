"""Processing time while filters grow."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, rises, speedups, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    speedup, ours = speedups(figure, series, "counting", "sff")
    return verdict(
        rises(series, ["sff", "counting"], "constraints", 1.5),
        Claim(
            f"{ours} is {speedup[0]:.2g}× to {speedup[-1]:.2g}× as fast as sff (paper: 10× with 9, on a GPU)",
            speedup[-1] > max(1, speedup[0]),
        ),
        Claim(
            f"with one constraint sff takes {speedup[0]:.2f}× and with two {speedup[1]:.2f}× as long as "
            f"{ours} (paper: less)",
            max(speedup[:2]) < 1,
        ),
        besides=ahead(series, "tiles", ["counting", "sff"]),
    )
