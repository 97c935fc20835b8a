"""Deliver events in a wireless mesh to their subscribers: match, look up, send.

    python examples/geo_names.py [--nodes 10000] [--events 500]

Every node of the mesh is a person's radio, and every person subscribes to tags. An event occurs at a node.
Matchyard finds the subscribers. The node looks up their positions by asking other nodes through the mesh. Then it
sends one message along a tree through random points. People who have moved are found as well.
"""

from __future__ import annotations

import argparse

import numpy as np

import matchyard as my
from matchyard import geo


def main(n_nodes: int = 10_000, n_events: int = 500, seed: int = 1) -> None:
    # A square with eight radios per unit of area; a radio reaches one unit, so about 24 others.
    mesh = geo.uniform(n_nodes, side=(n_nodes / 8) ** 0.5, r_c=1, seed=seed)
    people = [f"person {number}" for number in range(n_nodes)]
    print(mesh)

    # Subscriptions and events of the generated workload `twitter`; person i has subscription i.
    source = my.workload("tags", "twitter", n_nodes, seed)
    tags, _ = source.subscriptions(0, n_nodes)
    index = my.TagIndex().add_many(tags, people).consolidate()
    matches = index.match_unique(source.events(n_events))
    rng = np.random.default_rng(seed)
    sources = rng.integers(0, n_nodes, n_events)
    print(f"{n_events:,} events match {matches.work.matches:,} subscriptions")

    # Every person publishes a position; then one in ten moves, some a little and some far.
    directory = geo.Directory(mesh)
    published = directory.publish_many(people, mesh.points)
    for number in rng.choice(n_nodes, n_nodes // 10, replace=False):
        step = rng.normal(size=2) * 10 ** rng.uniform(-1, 1)
        place = np.clip(mesh.points[number] + step, mesh.region[:2], mesh.region[2:])
        directory.move(people[number], place)
    entries = directory.entries()
    print(
        f"a position is told to {published.n_asked.mean():.1f} nodes; a node knows {entries.mean():.1f} "
        f"people, {entries.max()} at most"
    )

    requests, positions = directory.locate(matches, sources)
    look_ups = positions.traffic(mesh)
    sending = geo.send(mesh, requests, rule="T60", runs=1, seed=seed)
    each = geo.send(mesh, requests, rule="C0", tree="star", seed=seed)
    flood = geo.flood(mesh, requests)
    print(f"{len(positions.nodes):,} look-ups, {positions.is_found.sum():,} of them successful")
    print(f"{'':28}transmissions  busiest node")
    for name, traffic in (
        ("look-ups and answers", look_ups),
        ("tree through random points", sending),
        ("one message per target", each),
        ("flooding", flood),
    ):
        print(f"{name:28}{traffic.work.transmissions:13,}  {traffic.congestion:12,.0f}")
    assert sending.work.lost == 0
    assert sending.work.deliveries == len(requests.targets) - sending.work.undelivered


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--events", type=int, default=500)
    given = options.parse_args()
    main(given.nodes, given.events)
