"""One run of uniform and in-line requests and of requests between a single pair, by T60 and greedy routing."""

import numpy as np
from benchmarks.shared.geo_figures import base_of

from matchyard import geo
from matchyard.bench.figures.claims import Claim, in_panel, verdict
from matchyard.bench.figures.geo_plots import Panel, draw_loads
from matchyard.geo.scenario import make_workload, uniform_mesh

WORKLOADS = {"uniform": "uniform", "in-line": "inline", "single pair": "pair"}


def run(figure):
    for name, traffic in simulated(figure).items():
        load, away = traffic.load, distances(traffic.mesh)
        is_near = away <= figure.settings["near"]
        shown = {
            "busiest": load.max(),
            "99.9 %": np.quantile(load, 0.999),
            "99 %": np.quantile(load, 0.99),
            "mean": load.mean(),
            "mean near the line": load[is_near].mean(),
            "mean elsewhere": load[~is_near].mean(),
        }
        fields = {
            "median": float(np.median(load)),
            "share_near": float(load[is_near].sum() / load.sum()),
            "nodes_near": float(is_near.mean()),
            "busiest_away": float(away[load.argmax()]),
            "idle": float((load == 0).mean()),
        }
        for x, y in shown.items():
            yield {"series": "load", "panel": name, "x": x, "y": float(y), **fields}


def simulated(figure):
    """The traffic of one run of each workload."""
    traffic = {}
    for name, workload in WORKLOADS.items():
        one = base_of(figure)._replace(workload=workload, size=figure.settings["request_size"])
        mesh = uniform_mesh(*one[:5])
        traffic[name] = geo.send(mesh, make_workload(mesh, one), one.routing, one.rule, 1, one.seed)
    return traffic


def distances(mesh):
    """The distance of each node from the middle line, in sides of the square."""
    low, high = mesh.region[1], mesh.region[3]
    return np.abs(mesh.points[:, 1] - (low + high) / 2) / (high - low)


def illustrate(figure, folder):
    size = figure.settings["request_size"]
    titles = {"single pair": "single pair, 2 nodes each"}
    panels = [Panel(traffic.mesh, traffic.load, titles.get(name, f"{name}, {size} nodes each"))
              for name, traffic in simulated(figure).items()]  # fmt: skip
    title = f"{figure.settings['requests']:,} requests by T60 and greedy routing, one run"
    draw_loads(panels, folder / "heat_maps.png", title)


def judge(figure, rows):
    loads = {name: {row["x"]: row["y"] for row in in_panel(rows, name)} for name in WORKLOADS}
    fields = {name: in_panel(rows, name)[0] for name in WORKLOADS}
    busiest = {name: values["busiest"] for name, values in loads.items()}
    worst = ", ".join(f"{name} {load:,.0f}" for name, load in busiest.items())
    even, line = loads["uniform"], loads["in-line"]
    near = f"within {figure.settings['near']:.0%} of the side from the middle line"
    return verdict(
        Claim(
            f"the busiest node has {worst} (thesis: a single pair is the absolute worst case)",
            busiest["single pair"] > busiest["in-line"] > busiest["uniform"],
        ),
        Claim(
            f"in-line requests put {fields['in-line']['share_near']:.0%} of the load {near}, where "
            f"{fields['in-line']['nodes_near']:.0%} of the nodes are, {line['mean near the line']:,.0f} a node against "
            f"{line['mean elsewhere']:,.0f} elsewhere (thesis: a worst case along a narrow band)",
            line["mean near the line"] > 3 * line["mean elsewhere"],
        ),
        Claim(
            f"uniform requests put {fields['uniform']['share_near']:.0%} of it there, and the busiest node has "
            f"{even['busiest'] / even['mean']:.1f} times the mean load, with in-line requests "
            f"{line['busiest'] / line['mean']:.0f} times (thesis: a generic load)",
            even["busiest"] / even["mean"] < 5
            and even["busiest"] / even["mean"] < line["busiest"] / line["mean"],
        ),
        besides=f"medians are {said(fields, 'median', ',.0f')}; of all nodes {said(fields, 'idle', '.0%')} hear nothing",
    )


def said(fields, field, form):
    return ", ".join(f"{name} {one[field]:{form}}" for name, one in fields.items())
