"""Congestion of uniform requests of 8 nodes: five routings, each with eight rules for intermediate points."""

from benchmarks.shared.geo_figures import base_of, measure, measure_baselines

from matchyard.bench.figures.claims import Claim, in_panel, verdict
from matchyard.geo import RULES


def run(figure):
    base = base_of(figure)._replace(size=figure.settings["request_size"])
    for row in measure_baselines(base, figure.threads):
        yield row | {"series": "baseline", "panel": "Grd", "x": row["series"]}
    for routing in figure.settings["routings"]:
        for rule in RULES:
            one = base._replace(routing=routing.lower(), rule=rule)
            yield {"series": "tree", "panel": routing, "x": rule, **measure(one, figure.threads)}


def judge(figure, rows):
    trees = [row for row in rows if not row.get("beside")]
    congestion = {routing: {row["x"]: row["y"] for row in in_panel(trees, routing)}
             for routing in figure.settings["routings"]}  # fmt: skip
    others = [name for name in congestion if name != "Grd"]
    drawn = [rule for rule in RULES if rule != "C0"]
    least = [rule for rule in drawn if all(congestion["Grd"][rule] < congestion[name][rule] for name in others)]  # fmt: skip
    behind = [
        min(congestion[name][rule] for name in others) / congestion["Grd"][rule] - 1
        for rule in drawn
    ]
    straight = ", ".join(f"{name} {congestion[name]['C0']:.0f}" for name in congestion)
    arcs = {rule: congestion["Grd"][rule] for rule in ("C1.5", "C2")}
    angles = [congestion["Grd"][rule] for rule in ("T30", "T45", "T60")]
    return verdict(
        Claim(
            f"in the mean of {max(row['runs'] for row in trees)} runs, the busiest node is least busy with Grd for "
            f"{len(least)} of {len(drawn)} rules that draw points; the next routing has {min(behind):+.1%} to "
            f"{max(behind):+.1%} (thesis: Grd is always the lowest)",
            len(least) == len(drawn),
        ),
        Claim(
            f"T30, T45 and T60 have {min(angles):.0f} to {max(angles):.0f} with Grd, C1.5 {arcs['C1.5']:.0f} and "
            f"C2 {arcs['C2']:.0f} (thesis: angles are better than arcs with γ > 1)",
            max(angles) < min(arcs.values()),
        ),
        besides=f"straight on, C0, has {straight}, where Grd, GSP and DSP throw no coin and have one run, so that "
        f"their maxima are not those of a mean; {mean_loads(figure, trees)}; {baselines(rows)}",
    )


def mean_loads(figure, trees):
    """The mean load of a node with each routing over that with Grd, in words."""
    means = {routing: sum(row["mean_load"] for row in in_panel(trees, routing))
             for routing in figure.settings["routings"]}  # fmt: skip
    said = [f"{name} {total / means['Grd']:.2f}×" for name, total in means.items() if name != "Grd"]
    return f"the mean load, against that with Grd: {', '.join(said)}"


def baselines(rows):
    said = [f"{row['x']} {row['y']:,.0f}" for row in rows if row.get("beside")]
    return f"for comparison: {', '.join(said)}"
