"""Processing time while there are more interfaces, each with as many filters."""

from matchyard.bench import sweeps
from matchyard.bench.claims import Claim, ahead, rises, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    found = ys(rows)
    speedup = [sff / counting for sff, counting in zip(found["sff"], found["counting"])]
    return verdict(
        rises(found, ["sff", "counting"], "interfaces", 3),
        Claim(
            f"counting is {speedup[0]:.2g}× to {speedup[-1]:.2g}× as fast as sff (paper: 7× to 13×, on a GPU)",
            speedup[-1] > max(1, speedup[0]),
        ),
        besides=ahead(found, "tiles", ["counting", "sff"]),
    )
