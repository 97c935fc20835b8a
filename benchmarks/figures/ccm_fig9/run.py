"""Processing time while there are more interfaces, each with as many filters."""

from matchyard.bench import sweeps
from matchyard.bench.figures.claims import Claim, ahead, rises, speedups, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    found = ys(rows)
    speedup, ours = speedups(figure, found, "counting", "sff")
    return verdict(
        rises(found, ["sff", "counting"], "interfaces", 3),
        Claim(
            f"{ours} is {speedup[0]:.2g}× to {speedup[-1]:.2g}× as fast as sff (paper: 7× to 13×, on a GPU)",
            speedup[-1] > max(1, speedup[0]),
        ),
        besides=ahead(found, "tiles", ["counting", "sff"]),
    )
