"""Labels of all trees: their length, the correctness of their routes, and their speed."""

import time

import numpy as np
from benchmarks.shared.networks import internet

from matchyard.bench.figures.claims import Claim, verdict
from matchyard.routing import grow, label, next_hop

BITS, SPEED = "longest label, bits", "million packets/s of a core"


def run(figure):
    network, name = internet(figure.size)
    random, n_wrong, chosen = np.random.default_rng(1), 0, figure.settings
    n_routes = chosen["routes"] // (2 * chosen["trees"])
    for rule in ("L", "LC"):
        longest = 0
        for number, tree in enumerate(grow(network, rule, chosen["trees"])):
            labels = label(network, tree, number)
            longest = max(longest, labels.n_bits)
            n_wrong += wrong_routes(
                network, tree, labels, *random.integers(0, network.n_nodes, (2, n_routes))
            )
        yield {"series": "here", "panel": BITS, "x": f"{rule}, {chosen['trees']} trees", "y": longest,
               "network": name, "wrong": n_wrong}  # fmt: skip
    nodes, targets = random.integers(0, network.n_nodes, (2, chosen["packets"]))
    wanted = labels.labels[targets]
    for what, at in (("at one node", tree.root), ("a node each", nodes)):
        rate = packets_per_s(
            lambda at=at: next_hop(labels, at, wanted), len(wanted), chosen["pass_s"]
        )
        yield {"series": "here", "panel": SPEED, "x": what, "y": rate / 1e6, "network": name,
               "wrong": n_wrong}  # fmt: skip


def wrong_routes(network, tree, labels, sources, targets):
    """The number of packets that do not arrive, or not on the shortest path of the tree."""
    at, hops = sources.copy(), np.zeros(len(sources), np.int64)
    for _ in range(2 * int(tree.depth.max()) + 1):
        interface = next_hop(labels, at, labels.labels[targets])
        moves = interface > 0
        at[moves] = network.neighbours[network.start[at[moves]] + interface[moves] - 1]
        hops += moves
    here, there, links = sources.copy(), targets.copy(), np.zeros(len(sources), np.int64)
    while (apart := here != there).any():
        is_lower = apart & (tree.depth[here] >= tree.depth[there])
        is_upper = apart & ~is_lower
        here[is_lower] = tree.parent[here[is_lower]]
        there[is_upper] = tree.parent[there[is_upper]]
        links += apart
    return int(((at != targets) | (hops != links)).sum())


def packets_per_s(work, n_packets, pass_s):
    """The median rate of five passes in CPU time, overhead of the call included."""
    work()
    rates = []
    for _ in range(5):
        start, n_calls = time.process_time(), 0
        while (spent := time.process_time() - start) < pass_s:
            work()
            n_calls += 1
        rates.append(n_calls * n_packets / spent)
    return float(np.median(rates))


def judge(figure, rows):
    bits = [row["y"] for row in rows if row["panel"] == BITS]
    speed = {row["x"]: row["y"] for row in rows if row["panel"] == SPEED}
    n_wrong = max(row["wrong"] for row in rows)
    return verdict(
        Claim(
            f"a core forwards {speed['at one node']:,.0f} million packets/s at one node and "
            f"{speed['a node each']:,.0f} million at a node each (thesis: 250 on average over nodes)",
            speed["at one node"] >= 250,
        ),
        Claim(
            f"labels of {figure.settings['trees']} trees of each rule have at most {max(bits):.0f} "
            "bits (thesis: 46)",
            16 <= max(bits) <= 46,
        ),
        Claim(f"{n_wrong} of {figure.settings['routes']:,} random routes are wrong", n_wrong == 0),
        besides=f"on {rows[0]['network']}",
    )
