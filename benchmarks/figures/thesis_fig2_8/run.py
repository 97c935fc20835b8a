"""Congestion of the links in trees of both rules."""

from benchmarks.shared.networks import internet

from matchyard.bench.figures.claims import Claim, verdict, ys
from matchyard.routing import congestion, distribution, grow

PARTS = {"1 %": 0.01, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99}


def run(figure):
    network, name = internet(figure.size)
    counts = figure.settings["counts"]
    for rule in ("L", "LC"):
        trees = grow(network, rule, max(counts))
        for count in counts:
            loads = congestion(network, trees[:count])
            used = distribution(loads[loads > 0])
            more = {"panel": rule, "x": count, "network": name, "in_use": used.n / network.n_links,
                    "at_one": float((loads == 1).sum() / used.n)}  # fmt: skip
            for part, share in PARTS.items():
                yield {"series": part, "y": used.quantile(share), **more}


def judge(figure, rows):
    series = {rule: ys([row for row in rows if row["panel"] == rule]) for rule in ("L", "LC")}
    shares = [row["at_one"] for row in rows]
    in_use = [row["in_use"] for row in rows]

    def ends(part):
        return ", ".join(
            f"{series[rule][part][0]:.2f} to {series[rule][part][-1]:.2f} with {rule}"
            for rule in series
        )

    return verdict(
        Claim(
            f"95 % of links are at most at {ends('95 %')} (thesis: less with LC)",
            all(a > b for a, b in zip(series["L"]["95 %"], series["LC"]["95 %"], strict=True)),
        ),
        Claim(
            f"with more trees 99 % of links are at most at {ends('99 %')} (thesis: extremes fall)",
            all(series[rule]["99 %"][-1] < series[rule]["99 %"][0] for rule in series),
        ),
        Claim(
            f"{min(shares):.0%} to {max(shares):.0%} of links are at exactly 1, and medians go from "
            f"{ends('median')} (thesis: most links are at 1)",
            min(shares) > 0.5,
        ),
        besides=f"links that no tree uses are left out: {min(in_use):.0%} to {max(in_use):.0%} of "
        f"{rows[0]['network']} are in use",
    )
