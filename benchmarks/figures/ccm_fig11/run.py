"""Processing time by share of numeric constraints."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, rises, speedups, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    speedup, ours = speedups(figure, series, "counting", "sff")
    selected = [row["matches_per_event"] for row in rows if row["series"] == "sff"]
    return verdict(
        rises(series, ["sff"], "numbers", 1.1),
        Claim(
            f"counting changes by {series['counting'][-1] / series['counting'][0]:.2f}× (paper: hardly)",
            series["counting"][-1] / series["counting"][0] < 1.5,
        ),
        Claim(
            f"{10 * selected[0]:.1f} % of the interfaces are selected without numbers and "
            f"{10 * selected[-1]:.1f} % with nothing else (paper: 1 % and 7 %)",
            selected[0] < selected[-1],
        ),
        Claim(
            f"{ours} is {speedup[0]:.2g}× to {speedup[-1]:.2g}× as fast as sff (paper: rises, on a GPU)",
            speedup[-1] > max(1, speedup[0]),
        ),
        besides=ahead(series, "tiles", ["counting", "sff"]),
    )
