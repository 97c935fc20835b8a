"""Congestion over the load of the worst rectangle, by T60 and straight paths, for growing meshes. Each value is the
mean of some meshes, since the worst rectangle depends on random clusters of nodes.

load(R) bounds the congestion of every routing, up to a constant [thesis Lemma 4.4.1]. The asserted bound includes
the constant: no routing is below it.
"""

import math

import numpy as np
from benchmarks.shared.geo_figures import base_of, measure

from matchyard import geo
from matchyard.bench.figures.claims import Claim, in_panel, verdict, ys
from matchyard.geo.scenario import make_workload, uniform_mesh

PANELS = {"in-line M2": ("inline", 2), "uniform M2": ("uniform", 2), "uniform M8": ("uniform", 8)}
PER_LOG = "T60 / ln n"


def run(figure):
    for panel, (workload, size) in PANELS.items():
        for n in (n for n in figure.settings["nodes"] if n <= figure.size):
            base = base_of(figure, n)._replace(workload=workload, size=size)
            meshes = [compared(base._replace(mesh_seed=seed, seed=seed), figure.threads)
                     for seed in range(1, 1 + figure.settings["meshes"])]  # fmt: skip
            means = {name: float(np.mean([one[name] / one["load"] for one in meshes]))
                     for name in ("T60", "C0", "asserted")}  # fmt: skip
            place = {"panel": panel, "x": n}
            yield {"series": "T60", "y": means["T60"], **place, "meshes": meshes}
            yield {"series": PER_LOG, "y": means["T60"] / math.log(n), **place}
            yield {"series": "C0", "y": means["C0"], **place}
            yield {"series": "asserted bound", "y": means["asserted"], **place, "beside": True}


def compared(one, threads):
    """The congestion of T60 and of straight paths, and both bounds, on one mesh."""
    mesh = uniform_mesh(*one[:5])
    bound = geo.lower_bound(mesh, make_workload(mesh, one))
    congestion = {rule: measure(one._replace(rule=rule), threads)["y"] for rule in ("T60", "C0")}
    return {**congestion, "load": bound.load, "asserted": bound.asserted}


def judge(figure, rows):
    line = ys(in_panel(rows, "in-line M2"))
    straight, drawn = (line[rule][-1] / line[rule][0] for rule in ("C0", "T60"))
    nodes = [row["x"] for row in in_panel(rows, "in-line M2") if row["series"] == "T60"]
    margins = [one[rule] / one["asserted"]
               for row in rows for one in row.get("meshes", []) for rule in ("T60", "C0")]  # fmt: skip
    return verdict(
        Claim(
            f"from {nodes[0]:,} to {nodes[-1]:,} nodes the ratio of in-line pairs grows {drawn:.1f}× by T60 and "
            f"{straight:.1f}× straight on, ln n {math.log(nodes[-1]) / math.log(nodes[0]):.1f}× and √n "
            f"{math.sqrt(nodes[-1] / nodes[0]):.0f}× (thesis: O(log n) by T60)",
            drawn <= 3 and straight >= 8,
        ),
        Claim(
            f"over ln n it is {span(line[PER_LOG])} (thesis: bounded)",
            min(line[PER_LOG]) >= 0.8 and max(line[PER_LOG]) <= 1.4,
        ),
        Claim(
            f"congestion is {min(margins):.0f} to {max(margins):.0f} times the bound that can be asserted (never "
            "below 1)",
            min(margins) >= 1,
        ),
        *(not_growing(rows, panel) for panel in list(PANELS)[1:]),
    )


def not_growing(rows, panel):
    """A claim: from the smallest to the largest mesh, the ratio over ln n grows by at most a fifth."""
    ratios = ys(in_panel(rows, panel))[PER_LOG]
    grown = ratios[-1] / ratios[0]
    text = f"{panel} over ln n is {span(ratios)} and changes {grown:.2f}× from first to last (thesis: bounded)"
    return Claim(text, grown <= 1.2)


def span(values):
    return f"{min(values):.2f} to {max(values):.2f}"
