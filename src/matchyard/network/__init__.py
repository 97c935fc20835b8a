"""The data plane of content-based routing: packets that find their way. `pip install 'matchyard[network]'`

Network            routers at all nodes of a network, in memory
Hierarchy          domains of routers, with trees in each and trees between them
Router             one router: packets and updates in, packets and updates out
Packet, Locator    what travels, and where to
Plan               trees and labels of a network under one version
"""

from matchyard.network.domains import Domain
from matchyard.network.hierarchy import Hierarchy
from matchyard.network.network import Network
from matchyard.network.packet import (
    DO_NOT_ANSWER,
    DO_NOT_STORE,
    KEEP,
    FanOut,
    Kind,
    Locator,
    Packet,
    PacketError,
)
from matchyard.network.plan import Part, Plan
from matchyard.network.router import Router, TreeUpdate
from matchyard.network.service import Delivery, Flight
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
    "Locator",
    "Network",
    "Packet",
    "PacketError",
    "Part",
    "Plan",
    "Router",
    "Trace",
    "TreeUpdate",
]
