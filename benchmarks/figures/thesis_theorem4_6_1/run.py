"""The congestion of look-ups of all targets in the mesh's directory, and the entries that nodes keep for it.

Every source looks up all its targets, and the answers come back. Look-ups are not random, so one run is enough.
"""

import math

import numpy as np
from benchmarks.shared.geo_figures import base_of, measure, side_of

from matchyard import geo
from matchyard.bench.compare.report import short
from matchyard.bench.figures.claims import Claim, in_panel, verdict, ys
from matchyard.geo.scenario import make_workload, uniform_mesh

BOUND = "look-ups / (κ · ln n · load(R))"
SENDING = "look-ups / sending"
ENTRIES = "entries / ln n"
WORKLOADS = {"uniform": "uniform", "in-line": "inline"}


def run(figure):
    chosen = figure.settings
    for n in (n for n in chosen["asked"] if n <= figure.size):
        base = base_of(figure, n)
        meshes = [published(n, seed) for seed in range(1, 1 + chosen["meshes"])]
        for name, workload in WORKLOADS.items():
            for count in chosen["look_ups"]:
                one = base._replace(workload=workload, size=count + 1)
                yield from asked(f"{name}, {short(n)}", one, meshes, figure.threads)
    for n in (n for n in chosen["nodes"] if n <= figure.size):
        entries = published(n, 1).entries()
        kept = {"mean": entries.mean(), "99 %": np.quantile(entries, 0.99), "most": entries.max()}
        for name, value in kept.items():
            yield {"series": name, "panel": ENTRIES, "x": n, "y": float(value / math.log(n)),
                   "entries": float(value)}  # fmt: skip


def published(n, seed):
    """A directory with the positions of all nodes, by their numbers."""
    mesh = uniform_mesh(n, side_of(n), 1.0, 1.0, seed)
    directory = geo.Directory(mesh)
    directory.publish_many(range(n), mesh.points)
    return directory


def asked(series, base, directories, threads):
    """The rows of one workload and number of look-ups: means over all meshes."""
    meshes = [looked_up(base._replace(mesh_seed=seed, seed=seed), directory, threads)
             for seed, directory in enumerate(directories, 1)]  # fmt: skip
    look_ups = base.size - 1
    for panel, part in ((BOUND, look_ups * math.log(base.nodes)), (SENDING, 1)):
        below = "load" if panel == BOUND else "sending"
        y = float(np.mean([one["look_ups"] / (part * one[below]) for one in meshes]))
        yield {"series": series, "panel": panel, "x": look_ups, "y": y, "meshes": meshes}


def looked_up(one, directory, threads):
    """The congestion of look-ups and of sending on one mesh, and the lengths of look-ups."""
    mesh = directory.mesh
    requests = make_workload(mesh, one)
    located = directory.resolve(requests)
    sources = np.repeat(requests.sources, np.diff(requests.target_start))
    distances = np.linalg.norm(mesh.points[sources] - mesh.points[requests.targets], axis=1)
    walk, is_far = located.walk / distances, distances > mesh.r_c
    return {
        "look_ups": located.traffic(mesh).congestion,
        "sending": measure(one, threads)["y"],
        "load": geo.lower_bound(mesh, requests).load,
        "walk_mean": float(walk[is_far].mean()),
        "walk_most": float(walk[is_far].max()),
        "walk_most_near": float(walk[~is_far].max(initial=0)),
        "failed": int((located.nodes != requests.targets).sum()),
    }


def judge(figure, rows):
    bound, sending, entries = (ys(in_panel(rows, name)) for name in (BOUND, SENDING, ENTRIES))
    most = max(figure.settings["look_ups"])
    grown = [values[-1] / values[0] for values in bound.values()]
    per_look_up = [values[-1] / values[0] / most for values in sending.values()]
    last = [values[-1] for values in sending.values()]
    kept = {name: values[-1] / values[0] for name, values in entries.items()}
    return verdict(
        Claim(
            f"from 1 to {most} look-ups, their congestion over κ · ln n · load(R) changes {span(grown)}× (thesis: it is "
            "at most κ times the bound of sending, so this does not grow)",
            max(grown) <= 1.3,
        ),
        larger_meshes(bound),
        Claim(
            f"over that of sending by T60 it is {span(last)} at {most} look-ups, and over κ as well it changes "
            f"{span(per_look_up)}× (thesis: at most κ times)",
            max(per_look_up) <= 1.3,
        ),
        Claim(
            f"over ln n, the entries of a node change {kept['mean']:.2f}× in the mean and {kept['99 %']:.2f}× for 99 % "
            f"of nodes, from {figure.settings['nodes'][0]:,} to {figure.size:,} nodes (thesis: O(log n))",
            max(kept["mean"], kept["99 %"]) <= 1.3,
        ),
        walks(rows),
        besides=f"the node with most entries has {entries['most'][0]:.1f} to {entries['most'][-1]:.1f} times ln n",
    )


def larger_meshes(bound):
    """The largest share of the bound, on the largest meshes and on the smallest."""
    by_size = {}
    for series, values in bound.items():
        by_size.setdefault(series.split(", ")[1], []).append(max(values))
    (first, small), *_, (last, large) = by_size.items()
    times = max(large) / max(small)
    return Claim(
        f"from {first} to {last} nodes its largest value changes {times:.2f}× (thesis: bounded)",
        times <= 1.3,
    )


def walks(rows):
    """A claim: all look-ups succeed, with walks proportional to the distance."""
    meshes = [one for row in in_panel(rows, BOUND) for one in row["meshes"]]
    means = [one["walk_mean"] for one in meshes]
    most, near = (max(one[name] for one in meshes) for name in ("walk_most", "walk_most_near"))
    failed = sum(one["failed"] for one in meshes)
    return Claim(
        f"{'all' if not failed else f'all but {failed:,}'} look-ups found their node; walks are {span(means)} times the "
        f"distance in the mean and at most {most:.1f} times, or {near:.0f} times between neighbours (thesis: "
        "proportional)",
        failed == 0 and most <= 15,
    )


def span(values):
    return f"{min(values):.2f} to {max(values):.2f}"
