"""Filters of routers for all choices of one to eight trees, by both rules."""

import numpy as np
from benchmarks.shared.networks import internet, routers

from matchyard import workload
from matchyard.bench.figures.claims import Claim, verdict
from matchyard.routing import grow, register_workload


def run(figure):
    network, name = internet(figure.settings["nodes"] if figure.size > 100_000 else 500)
    chosen = routers(network, figure.settings["networks"])
    registered = register_workload(workload("tags", "icn", figure.size), network)
    for rule in ("L", "LC"):
        trees = grow(network, rule, figure.settings["trees"])
        for node in chosen:
            for size in registered.table(network, trees, node).sizes():
                yield {"panel": rule, "series": f"AS{network.names[node]}", "x": size.n_trees,
                       "y": 60 * size.filters[2] / 1e6, "filters": size.filters,
                       "entries": size.entries, "links": int(network.degrees[node]),
                       "network": name}  # fmt: skip


def judge(figure, rows):
    places = list(dict.fromkeys((row["panel"], row["series"]) for row in rows))
    row_of = {(row["panel"], row["series"], row["x"]): row for row in rows}
    one = {place: row_of[(*place, 1)] for place in places}
    most = {place: row_of[(*place, figure.settings["trees"])] for place in places}
    ratios = {place: 1e6 * most[place]["y"] / 60 / one[place]["filters"][0] for place in places}
    above = [f"{x} with {rule}" for (rule, x), ratio in ratios.items() if ratio >= 2]
    largest = max(places, key=lambda place: most[place]["y"])
    order = np.corrcoef(
        np.argsort(np.argsort([most[place]["links"] for place in places])),
        np.argsort(np.argsort([most[place]["y"] for place in places])),
    )[0, 1]
    leaner = [
        (32 * most[place]["filters"][2] + 2 * most[place]["entries"][2])
        / (32 * one[place]["filters"][0] + 2 * one[place]["entries"][0])
        for place in places
    ]
    return verdict(
        Claim(
            f"eight trees take {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times the memory "
            f"of one, {' and '.join(above) or 'none'} above 2 (thesis: always below 2)",
            min(ratios.values()) >= 1 and max(ratios.values()) < 2,
        ),
        Claim(
            f"{largest[1]} with {largest[0]} stores most (thesis: Level3, AS3356, with L)",
            largest == ("L", "AS3356"),
        ),
        Claim(
            f"networks with more links store more, rank correlation {order:.2f} (thesis: usually)",
            order > 0.3,
        ),
        besides=f"with 32 bytes for a filter and 2 for an entry eight trees take {min(leaner):.2f} to "
        f"{max(leaner):.2f} times one; {rows[0]['network']}, about {figure.size / 41.7:,.0f} users "
        "against 50 million",
    )
