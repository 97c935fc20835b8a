"""The padding, sparseness and length of paths between random pairs of nodes.

Maxima differ between networks, so the greedy routings, which are quick, run on several networks.
"""

import time

import numpy as np
from benchmarks.shared.geo_figures import side_of

from matchyard import geo
from matchyard.bench.figures.claims import Claim, verdict

ROUTINGS = ("GSP", "Grd", "GrdRnd2", "DSP", "GrdRnd1")
GREEDY = ("Grd", "GrdRnd2", "GrdRnd1")
FIRST = "r_C = 1"


def run(figure):
    chosen, side = figure.settings, side_of(figure.size)
    for reach in chosen["ranges"]:
        meshes = [geo.uniform(figure.size, side, reach, seed=1 + i) for i in range(chosen["networks"])]  # fmt: skip
        for name in ROUTINGS:
            some = meshes if name in GREEDY else meshes[:1]
            measurements = [
                measured(mesh, 1 + i, name.lower(), chosen) for i, mesh in enumerate(some)
            ]
            yield {"series": "here", "panel": f"r_C = {reach}", "x": name, **measurements[0],
                   "maxima": [one["y"] for one in measurements],
                   "cpu_s": sum(one["cpu_s"] for one in measurements)}  # fmt: skip


def measured(mesh, seed, routing, chosen):
    """The properties of one routing's paths. Kernels are compiled before the clock starts."""
    pairs = np.random.default_rng(seed).integers(len(mesh), size=(2, chosen["paths"]))
    geo.route(mesh, pairs[0, :1], pairs[1, :1], routing)
    start = time.process_time()
    paths = geo.route(mesh, *pairs, routing, seed=seed)
    cpu_s = time.process_time() - start
    away, lengths, dense = (ask(mesh, paths) for ask in (geo.padding, geo.stretch, geo.sparsity))
    is_far = np.linalg.norm(mesh.points[pairs[0]] - mesh.points[pairs[1]], axis=1) > chosen["far"]
    is_plain = paths.recoveries == 0
    return {
        "y": float(away.max()),
        "mean": float(away.mean()),
        "p99": float(np.quantile(away, 0.99)),
        "sparsity": int(dense.max()),
        "sparsity_unless_stuck": int(dense[is_plain].max()),
        "stretch": float(lengths[is_far].max()),
        "hops": float(np.diff(paths.path_start).mean() - 1),
        "stuck": int((~is_plain).sum()),
        "lost": int((~paths.arrives).sum()),
        "cpu_s": cpu_s,
    }


def judge(figure, rows):
    ours = {(row["panel"], row["x"]): row for row in rows}
    alike = [ours[one["panel"], one["x"]]["y"] / one["y"] for one in figure.published
             if one["x"] != "GrdRnd1"]  # fmt: skip
    first = {name: ours[FIRST, name]["y"] for name in ROUTINGS}
    said = ", ".join(f"{name} {value:.2f}" for name, value in first.items())
    means = [row["mean"] / row["y"] for row in rows]
    return verdict(
        Claim(
            f"at {FIRST} the maxima are {said} (thesis: GSP < Grd < GrdRnd2 < DSP and GrdRnd1)",
            first["GSP"] < first["Grd"] < first["GrdRnd2"] < min(first["DSP"], first["GrdRnd1"]),
        ),
        Claim(
            f"all but GrdRnd1 have {min(alike):.2f} to {max(alike):.2f} times the thesis' value at both ranges "
            "(expected: 0.7 to 1.3)",
            min(alike) >= 0.7 and max(alike) <= 1.3,
        ),
        *(like_thesis(figure, ours, name) for name in GREEDY),
        Claim(
            f"mean paddings are {min(means):.0%} to {max(means):.0%} of the maxima (thesis: much smaller)",
            max(means) < 0.5,
        ),
        besides=besides(figure, rows),
    )


def like_thesis(figure, ours, name):
    """True if the thesis' values lie in the range of our networks, or within a tenth of it."""
    said, holds = [], []
    for one in figure.published:
        if one["x"] == name:
            maxima = ours[one["panel"], name]["maxima"]
            said.append(f"{min(maxima):.2f} to {max(maxima):.2f} (thesis: {one['y']:.2f})")
            holds.append(0.9 * min(maxima) <= one["y"] <= 1.1 * max(maxima))
    text = f"on {figure.settings['networks']} networks {name} has {' and '.join(said)}"
    if not all(holds):
        text += ", so the thesis' routing differs in a way that its text does not tell"
    return Claim(text, all(holds))


def besides(figure, rows):
    first = {row["x"]: row for row in rows if row["panel"] == FIRST}
    sparse = ", ".join(f"{name} {row['sparsity_unless_stuck']}" for name, row in first.items())
    longest = ", ".join(f"{name} {row['stretch']:.2f}" for name, row in first.items())
    pairs = list(zip(first["GrdRnd2"]["maxima"], first["GrdRnd1"]["maxima"]))
    stuck = first["Grd"]
    return (
        f"at {FIRST} GrdRnd2 is below GrdRnd1 on {sum(two < one for two, one in pairs)} of {len(pairs)} networks; σ "
        f"is {sparse}, and {stuck['sparsity']} for the {stuck['stuck']} paths of Grd that were stuck on the way; "
        f"paths of pairs more than {figure.settings['far']} apart have at most {longest} times their distance; "
        f"{sum(row['lost'] for row in rows)} paths were lost; "
        f"{sum(len(row['maxima']) for row in rows) * figure.settings['paths']:,} paths took "
        f"{sum(row['cpu_s'] for row in rows):.0f} s of CPU time on one thread"
    )
