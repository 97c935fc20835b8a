"""Processing time by number of names."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, falls, speedups, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    speedup, ours = speedups(figure, series, "counting", "sff")
    first, last = (
        {name: times[a] / times[b] for name, times in series.items()} for a, b in ((0, 2), (2, -1))
    )
    return verdict(
        falls(series, ["sff", "counting"], "names", 0.5),
        Claim(
            f"sff gains {first['sff']:.2g}× up to 100 names and {last['sff']:.2g}× beyond, counting "
            f"{first['counting']:.2g}× and {last['counting']:.2g}× (paper: times tend to stabilise)",
            all(first[name] > last[name] for name in ("sff", "counting")),
        ),
        Claim(
            f"{ours} is {speedup[0]:.2g}×, {speedup[1]:.2g}× and {speedup[-1]:.2g}× as fast as sff with 10, 30 "
            "and 1000 names (paper: rises to 30, then falls to 2×, on a GPU)",
            speedup[1] > speedup[0] and speedup[-1] < speedup[1] and speedup[-1] > 1,
        ),
        besides=ahead(series, "tiles", ["counting", "sff"]),
    )
