"""Oblivious multicast in wireless meshes: `pip install 'matchyard[network]'`. Oblivious routes ignore other traffic.

uniform, from_points, from_geojson   meshes: nodes in the plane, with a range
route, padding, sparsity, stretch    paths between nodes, and measures of their straightness
workload                             requests: generated, from files, from matches
send, flood                          requests along trees through random points; by flooding
lower_bound                          a lower bound on the load of the busiest node
Directory                            the positions of names, looked up through the mesh
scenario                             simulations as rows: parameters in, congestion out
"""

from importlib.util import find_spec as _find_spec

from matchyard.errors import UsageError as _UsageError

if _find_spec("scipy") is None:
    raise _UsageError("geography needs SciPy: pip install 'matchyard[network]'")

from matchyard.geo import scenario, workload
from matchyard.geo.congestion import Bound, Traffic, Work, load, lower_bound
from matchyard.geo.detour import RULES, Rule, draw
from matchyard.geo.location import Directory
from matchyard.geo.mesh import (
    Mesh,
    components,
    coverage,
    from_points,
    nearest,
    uniform,
)
from matchyard.geo.mesh_files import from_geojson, read_mesh, save_mesh
from matchyard.geo.multicast import Sending, flood, send, span
from matchyard.geo.path import ROUTINGS, Paths, Way, padding, route, sparsity, stretch
from matchyard.geo.workload import Requests

__all__ = [
    "ROUTINGS", "RULES", "Bound", "Directory", "Mesh", "Paths", "Requests", "Rule", "Sending",
    "Traffic", "Way", "Work", "components", "coverage", "draw", "flood", "from_geojson",
    "from_points", "heat_map", "load", "lower_bound", "nearest", "padding", "read_mesh", "route",
    "save_mesh", "scenario", "send", "span", "sparsity", "stretch", "uniform", "workload",
]  # fmt: skip
