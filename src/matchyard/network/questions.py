"""Answers of a running router about itself: its status, its metrics, and its step of a trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from matchyard.network.packet import PacketError
from matchyard.network.peers import Role
from matchyard.network.station import Station
from matchyard.network.tables import checked_tags

_COUNTS = {
    "received": "Packets received",
    "sent": "Packets sent to neighbours",
    "delivered": "Packets handed to applications",
    "answered": "Requests answered from the cache",
    "refused": "Packets refused",
    "false_forwards": "Packets received that no application here or beyond wanted",
    "retried": "Packets put on another tree",
    "lost": "Packets with a limited fan-out that reached no application",
    "updates": "Updates received",
    "updates_sent": "Updates sent to neighbours",
}


def answer(station: Station, question: bytes, connected: Sequence[str]) -> dict[str, Any]:
    """Answer a question of a client; an invalid question gets an error as its answer."""
    try:
        asked = json.loads(question)
        if asked["ask"] == "status":
            return status(station, connected)
        if asked["ask"] == "step":
            return step(station, asked["tags"], int(asked["tree"]), str(asked.get("from", "")))
        return {"error": f"no question {asked['ask']!r}; expected status or step"}
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        return {"error": f"an invalid question: {error!r}"}


def status(station: Station, connected: Sequence[str]) -> dict[str, Any]:
    """The status of a router."""
    router, memory = station.router, station.router.plane.rib.memory()
    links = {
        peer.name: {
            "is_connected": peer.name in connected,
            "waiting": len(session.kept),
            "dropped": session.dropped,
        }
        for peer, session in station.sessions.items()
        if peer.role is Role.ROUTER
    }
    tails = [one for peer, one in station.sessions.items() if peer.role is Role.TAIL]
    return {
        "name": station.name,
        "version": f"{router.plane.part.version:016x}",
        "routers": len(router.plane.part.labels[0].labels),
        "trees": len(router.plane.part.links),
        "different_trees": station.plans[router.plane.part.version].n_different,
        "neighbours": links,
        "registrations": len(router.applications),
        "filters": memory.filters,
        "entries": memory.entries,
        "table_bytes": memory.stored_bytes,
        "waiting_for_applications": sum(len(one.kept) for one in tails),
        "dropped_for_applications": sum(one.dropped for one in tails),
        "cached": len(router.cache),
        "refused_messages": station.refused,
        "last_refusal": station.last_refusal,
        "counts": vars(router.counts),
    }


def step(station: Station, tags: Any, tree: int, came_from: str) -> dict[str, Any]:
    """The neighbours and applications to which a router would send a notification on a tree."""
    router, wanted = station.router, checked_tags(tags)
    links = router.plane.rib.links
    if not 0 <= tree < len(links):
        raise PacketError(f"tree {tree}; expected 0 to {len(links) - 1}")
    interface = router.interfaces.get(came_from, 0)
    packet = router.filters.find([wanted])[0]
    _, leaving = router.plane.rib.forward(packet, np.array([tree]), np.array([interface]))
    keys = router.applications.who_wants(router.vocabulary.find([wanted])[0])[0]
    neighbours = {
        router.neighbour(one): len(router.plane.rib.wanted(tree, one)) for one in links[tree]
    }
    return {
        "router": station.name,
        "to": [router.neighbour(one) for one in leaving.tolist() if one],
        "keys": [str(key) for key in keys],
        "wanted_beyond": neighbours,  # the number of descriptors, by neighbour on the tree
    }


def metrics(station: Station, connected: Sequence[str]) -> str:
    """The status as text in the format of Prometheus."""
    state = status(station, connected)
    lines = list[str]()
    for name, what in _COUNTS.items():
        lines += [
            f"# HELP matchyard_router_{name}_total {what}.",
            f"# TYPE matchyard_router_{name}_total counter",
            f"matchyard_router_{name}_total {state['counts'][name]}",
        ]
    gauges = {
        "registrations": "Registrations of applications here",
        "filters": "Descriptors in the table",
        "entries": "Pairs of tree and interface in the table",
        "table_bytes": "Bytes of the table",
        "routers": "Routers on the map",
        "waiting_for_applications": "Packets that applications have not read",
    }
    for name, what in gauges.items():
        lines += [
            f"# HELP matchyard_router_{name} {what}.",
            f"# TYPE matchyard_router_{name} gauge",
            f"matchyard_router_{name} {state[name]}",
        ]
    for name, what in (
        ("waiting", "Messages not acknowledged"),
        ("is_connected", "1 if connected"),
    ):
        lines += [
            f"# HELP matchyard_router_link_{name} {what}, by neighbour.",
            f"# TYPE matchyard_router_link_{name} gauge",
        ]
        lines += [
            f'matchyard_router_link_{name}{{neighbour="{_escaped(neighbour)}"}} {int(link[name])}'
            for neighbour, link in state["neighbours"].items()
        ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
