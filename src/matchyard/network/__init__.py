"""The data plane of content-based routing: packets that find their way. `pip install 'matchyard[network]'`

Network            routers at all nodes of a network, in memory
Hierarchy          domains of routers, with trees in each and trees between them
Router             one router: packets and updates in, packets and updates out
Packet, Locator    what travels, and where to
Plan               trees and labels of a network under one version

draw_notifications                       many notifications, from nodes and on trees by seed
simulate_by_hops, simulate_by_subtree    where they go: by routers, or by one search for each; the same links
Links                                    delays, rates and losses, for a clock
collectors                               what a run tells, as Arrow tables
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
    "DO_NOT_ANSWER",
    "DO_NOT_STORE",
    "KEEP",
    "Delivery",
    "Domain",
    "FanOut",
    "Flight",
    "Hierarchy",
    "Kind",
    "Links",
    "Locator",
    "Network",
    "Notifications",
    "Packet",
    "PacketError",
    "Part",
    "Plan",
    "Router",
    "Run",
    "Trace",
    "TreeUpdate",
    "client",
    "collectors",
    "draw_notifications",
    "links",
    "processes",
    "simulate_by_hops",
    "simulate_by_subtree",
    "station",
]
