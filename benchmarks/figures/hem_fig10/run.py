"""Matching time by skew: a few attributes get more and more of the constraints."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, ahead, ratio, verdict, ys

run = sweeps.matching_times


def judge(figure, rows):
    series = ys(rows)
    varies = {name: max(times) / min(times) for name, times in series.items()}
    steady, others = ("hem", "tama"), ("rein", "ada_rein", "opindex")
    said = ", ".join(f"{name} by {varies[name]:.1f}×" for name in (*steady, *others))
    skewed = ratio(series["ada_rein"][3:], series["rein"][3:])
    return verdict(
        Claim(
            f"hem is {ratio(series['rein'], series['hem']):.1f}× as fast as rein",  # as in all figures
            ratio(series["rein"], series["hem"]) > 2,
        ),
        Claim(
            f"times vary {said} (paper: the first two hardly, the others greatly)",
            max(varies[name] for name in steady) < min(varies[name] for name in others),
        ),
        Claim(
            f"from α = 3 on ada_rein takes {skewed:.2f}× as long as rein (paper: less)", skewed < 1
        ),
        besides=ahead(series, "tiles", ["hem", "tama"]),
    )
