"""The data plane of content-based routing: the forwarding of packets. `pip install 'matchyard[network]'`

Network            routers at all nodes of a network, in memory
Hierarchy          domains of routers, with trees within and between domains
Router             one router: packets and updates in, packets and updates out
Packet, Locator    a packet, and the position of a router on a tree
Plan               trees and labels of a network under one version

draw_notifications                       many notifications from random nodes on random trees
simulate_by_hops, simulate_by_subtree    their links, by routers or by one search each; equal results
Links                                    delays, rates and losses of links
collectors                               the results of a run as Arrow tables
"""

from matchyard.network.domains import Domain
from matchyard.network.fan_out import FanOut
from matchyard.network.hierarchy import Hierarchy
from matchyard.network.network import Network
from matchyard.network.packet import (
    DO_NOT_ANSWER,
    DO_NOT_STORE,
    KEEP,
    Kind,
    Locator,
    Packet,
    PacketError,
)
from matchyard.network.paths import Notifications, draw_notifications
from matchyard.network.plan import Part, Plan
from matchyard.network.router import Router
from matchyard.network.service import Delivery, Flight
from matchyard.network.simulator import Links, Run, simulate_by_hops, simulate_by_subtree
from matchyard.network.tables import TreeUpdate
from matchyard.network.trace import Trace

__all__ = [
    "DO_NOT_ANSWER", "DO_NOT_STORE", "KEEP", "Delivery", "Domain", "FanOut", "Flight", "Hierarchy",
    "Kind", "Links", "Locator", "Network", "Notifications", "Packet", "PacketError", "Part", "Plan",
    "Router", "Run", "Trace", "TreeUpdate", "client", "collectors", "draw_notifications", "links",
    "processes", "settings", "simulate_by_hops", "simulate_by_subtree",
]  # fmt: skip
