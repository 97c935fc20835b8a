"""Filters of some routers of each map, with a shortest-path tree for every router (H3)."""

import numpy as np
from benchmarks.shared.networks import isps

from matchyard import workload
from matchyard.bench.figures.claims import Claim, verdict
from matchyard.routing import grow, register_workload


def run(figure):
    for name, network in isps(figure.settings["networks"], is_small=figure.size < 5_000):
        trees = grow(network, "H3")
        registered = register_workload(workload("tags", "icn", figure.size), network)
        order = np.argsort(-network.degrees, kind="stable")
        places = np.linspace(0, len(order) - 1, figure.settings["routers"]).astype(int)
        tables = [registered.table(network, trees, int(node)) for node in order[places]]
        all_of = [table.n_filters for table in tables]
        single = [least_of_one_tree(table) for table in tables]
        more = {"x": f"{name}, {network.n_nodes} routers", "nodes": network.n_nodes,
                "links": network.n_links, "series": "here", "one_tree": min(single),
                "entries": max(len(table.entries) for table in tables)}  # fmt: skip
        parts = {"one tree, least": min(single), "all trees, least": min(all_of),
                 "all trees, mean": float(np.mean(all_of)), "all trees, most": max(all_of)}  # fmt: skip
        for part, filters in parts.items():
            yield {"panel": part, "y": 60 * filters / 1e3, "filters": filters, **more}


def least_of_one_tree(table):
    """The fewest filters of a router with only one of the trees."""
    rows = np.repeat(np.arange(table.n_filters), np.diff(table.start))
    trees = table.entries >> 20
    is_new = np.append(True, (np.diff(rows) != 0) | (np.diff(trees) != 0))
    return int(np.bincount(trees[is_new]).min())


def judge(figure, rows):
    most = {row["x"]: row for row in rows if row["panel"] == "all trees, most"}
    ratios = {x: 1e3 * row["y"] / 60 / row["one_tree"] for x, row in most.items()}
    least, highest = min(ratios.values()), max(ratios.values())
    worst = max(ratios, key=ratios.get)
    return verdict(
        Claim(
            f"as many trees as routers, {min(row['nodes'] for row in rows)} to "
            f"{max(row['nodes'] for row in rows)}, take {least:.2f} to {highest:.2f} times the filters of "
            f"one tree, most in {worst} (thesis: good levels of aggregation)",
            least >= 1 and highest < 2,
        ),
        besides=f"entries grow with trees: up to {max(row['entries'] for row in rows):,} for "
        f"{figure.size:,} registrations, which 2 bytes each would make the larger part; bytes are not "
        "comparable, since the thesis' users are not public",
    )
