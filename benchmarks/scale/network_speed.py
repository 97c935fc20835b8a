"""Notifications per second of a simulated network, in CPU time of one thread.

    python -m benchmarks.scale.network_speed [routers] [internet]

`routers`: 1 000 nodes with a router each, two L trees, 3 000 registrations; by hops and by subtree, which must take
the same links. Registrations and events come from `icn`; a second, generated set has dozens of receivers per
event. `internet`: the network of CAIDA in MATCHYARD_DATA, eight LC trees, a million registrations, 100 000
notifications by subtree, and the tables of named routers. Appends lines to benchmarks/results/network.jsonl.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.shared.networks import N_INTERNET, internet

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.network import Network, draw_notifications, simulate_by_hops, simulate_by_subtree
from matchyard.network.collectors import summary
from matchyard.routing import (
    Registrations,
    Vocabulary,
    generate,
    grow,
    place,
    register_workload,
)

RESULTS = Path(__file__).parent.parent / "results" / "network.jsonl"
NODES, REGISTRATIONS, EVENTS, TREES, REPEATS = 1_000, 3_000, 20_000, 2, 5
ROUTERS = ("3356", "7018", "1239", "3257")


def icn() -> tuple[Any, Any, Any]:
    """Registrations, their users, and events."""
    source = my.workload("tags", "icn", REGISTRATIONS, 1)
    return *source.subscriptions(0, REGISTRATIONS), source.events(EVENTS)


def dense() -> tuple[Any, Any, Any]:
    """Registrations of two tags and events of eight, from forty tags; each registration has a user."""
    random = np.random.default_rng(1)

    def sets(count: int, size: int) -> list[list[str]]:
        return [[f"w{one}" for one in random.choice(40, size, replace=False)] for _ in range(count)]

    return sets(REGISTRATIONS, 2), np.arange(REGISTRATIONS), sets(EVENTS // 10, 8)


def measure_routers() -> None:
    topology = generate("barabasi-albert", NODES)
    for name, make, descriptors in (
        ("icn", icn, "tags"), ("icn", icn, "bloom"), ("dense", dense, "tags")
    ):  # fmt: skip
        tags, users, events = make()
        nodes = place(users, topology)
        rows = tags if isinstance(tags, list) else tags.to_pylist()
        net = Network(topology, TREES, "L", descriptors=descriptors)
        start = time.process_time()
        at = [topology.names[node] for node in nodes]
        net.register_many(rows, at, range(len(rows)))
        building = time.process_time() - start
        trees, given = net.plan("0").trees, draw_notifications(events, topology, TREES)
        registered = Registrations(tags, nodes)
        is_bloom = descriptors == "bloom"
        filters = Registrations(tags, nodes, Vocabulary("bloom")) if is_bloom else None
        by_hops, hops = timed(lambda net=net, given=given: simulate_by_hops(net, given), given.n)
        by_subtree, subtree = timed(
            lambda trees=trees, registered=registered, given=given, filters=filters: (
                simulate_by_subtree(topology, trees, registered, given, filters=filters)
            ),
            given.n,
        )
        assert links(by_hops) == links(by_subtree), "the two ways differ"
        for way, rate in (("hops", hops), ("subtree", subtree)):
            write({"kind": "notifications", "by": way, "workload": name, "descriptors": descriptors,
                   "nodes": NODES, "trees": TREES, "rule": "L", "registrations": REGISTRATIONS,
                   "notifications": given.n, "copies": int(by_hops.load.sum()),
                   "deliveries": int(by_hops.delivered.sum()), "per_s": rate,
                   "tables_s": building})  # fmt: skip


def links(run) -> bytes:
    """The links of each notification."""
    copies = run.copies
    return np.sort(copies.notification.astype(np.int64) << 32 | copies.place).tobytes()


def timed(act, n_done: int):
    """The result, and the median rate per second of CPU time of some runs after a first one."""
    result, rates = act(), []
    for _ in range(REPEATS):
        start = time.process_time()
        act()
        rates.append(n_done / (time.process_time() - start))
    return result, statistics.median(rates)


def measure_internet(n_registrations: int = 1_000_000, n_events: int = 100_000) -> None:
    topology, name = internet(N_INTERNET)
    steps, last = {}, time.process_time()

    def done(step: str) -> None:
        nonlocal last
        now = time.process_time()
        steps[step], last = now - last, now

    trees = grow(topology, "LC", 8)
    done("trees_s")
    source = my.workload("tags", "icn", n_registrations, 1)
    registered = register_workload(source, topology)
    done("registrations_s")
    given = draw_notifications(source.events(n_events), topology, len(trees))
    done("events_s")
    run = simulate_by_subtree(topology, trees, registered, given, keep=False)
    done("simulation_s")
    tables = {}
    for router in ROUTERS:
        if router in topology.names:
            memory = registered.table(topology, trees, topology.node(router)).memory()
            tables[f"AS{router}"] = {"filters": memory.filters, "entries": memory.entries,
                                     "bytes": memory.compact_bytes}  # fmt: skip
    done("tables_s")
    sums = {key: value for key, value in summary(run).to_row().items() if key != "last_time"}
    write({"kind": "internet", "network": name, "nodes": topology.n_nodes, "trees": len(trees),
           "rule": "LC", "registrations": n_registrations, "notifications": given.n, **steps,
           "per_s": given.n / steps["simulation_s"], **sums, "tables": tables})  # fmt: skip


def write(line: dict) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | {"machine": machine.describe()}) + "\n")
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    measures = {"routers": measure_routers, "internet": measure_internet}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="routers|internet", help="both by default")
    given = parser.parse_args()
    if not set(given.what) <= set(measures):
        parser.error(f"expected {' or '.join(measures)}")
    for name in given.what or measures:
        measures[name]()
