"""The control plane of content-based routing: `pip install 'matchyard[network]'`.

topology, generate, from_links   networks: from a file, generated, from a list of links
grow, shortest_paths             trees that span a network; a rule chooses their roots
label, next_hop                  node labels that route on a tree without routing tables
stretch, congestion              the cost of trees: longer paths, busier links
build_by_messages                trees and labels, built only by messages between neighbours
Rib, Update, links_at            the registrations that a router knows, and its updates to neighbours
Fib                              forwards packets according to a RIB
Registrations, merge             all registrations of a network, and the table of any router
Interest                         all nodes of a network that want a packet
place, register_workload         assign the users of a workload to nodes
"""

from importlib.util import find_spec as _find_spec

from matchyard.errors import UsageError as _UsageError

if _find_spec("scipy") is None:
    raise _UsageError("routing needs SciPy: pip install 'matchyard[network]'")

from matchyard.routing.descriptors import Descriptors, Vocabulary
from matchyard.routing.fib import Fib
from matchyard.routing.formats import topology
from matchyard.routing.interest import Interest
from matchyard.routing.interfaces import links_at
from matchyard.routing.labels import Labels, label, next_hop
from matchyard.routing.metrics import (
    COUNTS,
    LANES,
    Distribution,
    check_counts,
    congestion,
    distribution,
    label_bytes,
    stretch,
    stretch_from,
)
from matchyard.routing.models import generate
from matchyard.routing.placement import PLACEMENTS, place
from matchyard.routing.registrations import (
    Registrations,
    Sizes,
    Table,
    merge,
    register_workload,
    size_row,
    sizes_table,
    table_by_parts,
)
from matchyard.routing.rib import Memory, Rib, Update
from matchyard.routing.rounds import build as build_by_messages
from matchyard.routing.topology import Topology, from_links, largest_component
from matchyard.routing.trees import RULES, Tree, check_tree, first_equal, grow, shortest_paths

__all__ = [
    "COUNTS", "LANES", "PLACEMENTS", "RULES", "Descriptors", "Distribution", "Fib", "Interest",
    "Labels", "Memory", "Registrations", "Rib", "Sizes", "Table", "Topology", "Tree", "Update",
    "Vocabulary", "applications", "build_by_messages", "check_counts", "check_tree", "congestion",
    "descriptors", "distribution", "first_equal", "from_links", "generate", "grow", "label", "label_bytes",
    "largest_component", "links_at", "lookups", "merge", "next_hop", "place", "register_workload",
    "registrations", "rib", "saved_ribs", "shortest_paths", "size_row", "sizes_table", "stretch",
    "stretch_from", "table_by_parts", "topology", "whole_numbers",
]  # fmt: skip
