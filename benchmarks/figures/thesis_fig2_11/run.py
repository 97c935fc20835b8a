"""Filters at one router on one tree, by number of users, with own descriptors and with a finite pool."""

import json

import numpy as np
from benchmarks.shared.networks import internet, routers

from matchyard import workload
from matchyard.bench.figures.claims import Claim, verdict
from matchyard.routing import Registrations, grow, place, table_by_parts

OWN, POOL, FIT = "a workload that grows", "a finite pool of descriptors", "extrapolated"
TARGET = 500_000_000


def run(figure):
    chosen = figure.settings
    network, name = internet(chosen["nodes"] if figure.size > 50_000 else 500)
    (node,) = routers(network, [chosen["network"]], stub=False)
    trees = grow(network, "L", 1)
    measured = {}
    for share in chosen["shares"]:
        users = max(20, round(share * figure.size))
        source = workload("tags", "icn", round(users * chosen["rows_per_user"]))
        table = table_by_parts(source, network, trees, node)
        measured[users] = (table.n_filters, len(table.entries))
    measured |= recorded(figure, name)
    for users, (filters, entries) in sorted(measured.items()):
        yield {"series": OWN, "x": users, "y": filters, "entries": entries, "network": name}
    yield from from_pool(figure, network, trees, node)
    slope, level = fitted(measured)
    for users in (max(measured), 50_000_000, TARGET):
        yield {"series": FIT, "x": users, "y": float(np.exp(level) * users**slope), "beside": True,
               "slope": slope}  # fmt: skip


def recorded(figure, name):
    """Results of benchmarks/scale/rib.py with more users, on the same network."""
    path = figure.folder.parent.parent / "results" / "rib.jsonl"
    if "CAIDA" not in name or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["users"]: (line["filters"], line["entries"]) for line in lines if line["users"] > figure.size}  # fmt: skip


def fitted(measured):
    """A power law through the three largest numbers of users, where the curve is straightest."""
    users = sorted(measured)[-3:]
    slope, level = np.polyfit(np.log(users), np.log([measured[one][0] for one in users]), 1)
    return float(slope), float(level)


def from_pool(figure, network, trees, node):
    """The filters if users draw descriptors from those of a fixed number of users, as from a trace."""
    chosen = figure.settings
    per_user = chosen["rows_per_user"]
    pool_rows = round(chosen["pool"] * figure.size * per_user)
    tags, _ = workload("tags", "icn", pool_rows).subscriptions(0, pool_rows)
    pool, random = (
        Registrations([], np.empty(0, int)).vocabulary.encode(tags),
        np.random.default_rng(1),
    )
    for share in chosen["pool_shares"]:
        users = max(20, round(share * figure.size))
        owners = np.repeat(np.arange(users), round(per_user))
        rows = random.integers(0, pool_rows, len(owners))
        registered = Registrations(pool.take(rows), place(owners, network))
        table = registered.table(network, trees, node)
        yield {"series": POOL, "x": users, "y": table.n_filters, "entries": len(table.entries)}


def judge(figure, rows):
    points = {
        series: [row for row in rows if row["series"] == series] for series in (OWN, POOL, FIT)
    }

    def slope(some):
        return float(np.log(some[-1]["y"] / some[-2]["y"]) / np.log(some[-1]["x"] / some[-2]["x"]))

    own, pool = slope(points[OWN]), slope(points[POOL])
    far = points[FIT][-1]
    ours = points[OWN][-1]
    return verdict(
        Claim(
            f"with a finite pool of descriptors the last step grows with users to the power of "
            f"{pool:.2f} (thesis: flattens)",
            0 <= pool < 0.25,
        ),
        Claim(
            f"with a workload that grows, it is {own:.2f} (thesis: flattens)",
            0 <= own < 0.25,
        ),
        besides=f"with {ours['x']:,} users there are {ours['y']:,} filters and {ours['entries']:,} entries; the "
        f"power of {far['slope']:.2f} through the last three would be {far['y'] / 1e6:,.0f} million filters, "
        f"{60 * far['y'] / 1e9:.1f} GB at 60 bytes, with 500 million users (thesis: 63 million, 3.8 GB); the "
        "flattening is that of a trace which is drawn from again and again",
    )
