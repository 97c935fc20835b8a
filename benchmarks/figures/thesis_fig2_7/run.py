"""Exact stretch of all pairs of nodes over the first trees of both rules."""

from benchmarks.shared.networks import internet

from matchyard.bench.figures.claims import Claim, verdict, ys
from matchyard.routing import grow, stretch

PARTS = {"minimum": 0.0, "1 %": 0.01, "median": 0.5, "99 %": 0.99, "maximum": 1.0}


def run(figure):
    network, name = internet(figure.size)
    counts = figure.settings["counts"]
    for rule in ("L", "LC"):
        trees = grow(network, rule, max(counts))
        for count, distribution in stretch(network, trees, counts).items():
            for part, share in PARTS.items():
                yield {"series": part, "panel": rule, "x": count, "y": distribution.quantile(share),
                       "mean": distribution.mean, "pairs": distribution.n, "network": name}  # fmt: skip


def judge(figure, rows):
    series = {rule: ys([row for row in rows if row["panel"] == rule]) for rule in ("L", "LC")}
    means = {(row["panel"], row["x"]): row["mean"] for row in rows}
    counts = figure.settings["counts"]
    better = [str(count) for count in counts if means["L", count] < means["LC", count]]
    medians = [y for rule in series for y in series[rule]["median"]]
    nearly_all = [y for rule in series for y in series[rule]["99 %"]]

    def ends(part):
        return ", ".join(
            f"{series[rule][part][0]:.2f} to {series[rule][part][-1]:.2f} with {rule}"
            for rule in series
        )

    return verdict(
        Claim(
            f"medians are {min(medians):.2f} to {max(medians):.2f} (thesis: below 2)",
            min(medians) >= 1 and max(medians) < 2,
        ),
        Claim(
            f"99 % of pairs are at most at {max(nearly_all):.2f} (thesis: below 3)",
            max(nearly_all) < 3,
        ),
        Claim(
            f"with more trees the maximum goes from {ends('maximum')} (thesis: falls)",
            all(series[rule]["maximum"][-1] < series[rule]["maximum"][0] for rule in series),
        ),
        Claim(
            f"the median goes from {ends('median')} (thesis: rises slightly)",
            all(series[rule]["median"][-1] > series[rule]["median"][0] for rule in series),
        ),
        Claim(
            f"the mean of L is the lower one with {' and '.join(better) or 'no number of'} trees "
            "(thesis: L is better than LC)",
            len(better) == len(counts),
        ),
        besides=f"all {rows[0]['pairs']:,} pairs of nodes of {rows[0]['network']}, exactly",
    )
