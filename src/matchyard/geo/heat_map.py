"""An HTML page with a map of a mesh: its nodes, the load of each node, and the trees of requests.

The page is a single file without external resources, so it can be mailed, archived and opened offline.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError

_TEMPLATE = Path(__file__).with_name("heat_map.html")
_PLACEHOLDER = "/*DATA*/null"
_STEPS = 65535  # the resolution of positions along each axis: 1.5 m on a map 100 km wide


class Tree(NamedTuple):
    """The path of one request through the mesh."""

    request: str  # its id
    source: int  # node number
    targets: list[int]  # node numbers that were reached
    undelivered: list[str]  # names of the targets that were not reached
    paths: list[NDArray[np.int32]]  # node numbers, between tree nodes and intermediate nodes
    vias: list[int]  # the nodes nearest to the random intermediate points


def write_map(
    path: str | PathLike[str],
    *,
    title: str,
    region: tuple[float, float, float, float],
    points: NDArray[np.float64],
    load: NDArray[np.float64],
    sent: NDArray[np.float64],
    degrees: NDArray[np.integer[Any]],
    names: Sequence[str] | None,
    unit: str,
    reach: float,
    facts: Mapping[str, str],
    trees: Sequence[Tree],
) -> None:
    """Write the HTML page of a mesh.

    `region` is (left, bottom, right, top). `reach` is the distance at which nodes hear each other.
    `region`, `points` [n, 2] and `reach` are in `unit`. `load`, `sent` and `degrees` hold one number
    per node. Without `names`, nodes are called by their numbers. `facts` become a small table.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_map(
    ...         Path(folder, "map.html"), title="Two nodes", region=(0, 0, 10, 10),
    ...         points=np.array([[2.0, 5], [8, 5]]), load=np.array([3.0, 1]),
    ...         sent=np.array([1.0, 3]), degrees=np.array([1, 1]), names=["left", "right"],
    ...         unit="km", reach=7, facts={"nodes": "2"}, trees=[],
    ...     )
    ...     Path(folder, "map.html").read_text("utf-8").startswith("<!doctype html>")
    True
    """
    n_nodes = len(points)
    for what, values in {"load": load, "sent": sent, "degrees": degrees, "names": names}.items():
        if values is not None and len(values) != n_nodes:
            raise UsageError(f"{what} has {len(values)} entries; expected {n_nodes}, one per point")
    region = _finite(region[0]), _finite(region[1]), _finite(region[2]), _finite(region[3])
    data = {
        "title": str(title),
        "region": region,
        "n_nodes": n_nodes,
        "points": _encode(_quantise(points, region)),
        "load": _encode(_single(load)),
        "sent": _encode(_single(sent)),
        "degrees": _encode(np.clip(degrees, 0, 65535).astype("<u2")),
        "names": None if names is None else [str(name) for name in names],
        "unit": str(unit),
        "reach": _finite(reach),
        "facts": [[str(name), str(fact)] for name, fact in facts.items()],
        "trees": [_plain(tree, n_nodes) for tree in trees],
    }
    page = _TEMPLATE.read_text("utf-8").replace(_PLACEHOLDER, _script_json(data), 1)
    Path(path).write_text(page, "utf-8")


def _script_json(data: Mapping[str, object]) -> str:
    """JSON in which no text can end the script element or open a comment.
    It is plain ASCII, so that line separators and lone surrogates are safe, too."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _quantise(points: NDArray[np.float64], region: Sequence[float]) -> NDArray[np.uint16]:
    """Positions as steps from the lower left corner; points outside move to the border."""
    corner = np.array(region[:2])
    size = np.array(region[2:]) - corner
    size[size <= 0] = 1.0
    inside = np.clip(np.nan_to_num((points.reshape(-1, 2) - corner) / size), 0, 1)
    steps: NDArray[np.uint16] = np.rint(inside * _STEPS).astype("<u2")
    return steps


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Numbers in 4 bytes; the page shows numbers that are not finite as unknown."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype("<f4")


def _encode(values: NDArray[Any]) -> str:
    return b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def _finite(value: float) -> float:
    """The value, or 0 for infinity and NaN, which JSON lacks."""
    return float(value) if math.isfinite(value) else 0.0


def _plain(tree: Tree, n_nodes: int) -> dict[str, object]:
    """Convert a tree to JSON types, and check its node numbers."""

    def known(nodes: Iterable[Any]) -> list[int]:
        numbers = [int(node) for node in nodes]
        for node in numbers:
            if not 0 <= node < n_nodes:
                raise UsageError(
                    f"request {tree.request!r} names node {node}; expected 0 to {n_nodes - 1}"
                )
        return numbers

    return {
        "request": str(tree.request),
        "source": known([tree.source])[0],
        "targets": known(tree.targets),
        "undelivered": [str(name) for name in tree.undelivered],
        "paths": [known(path) for path in tree.paths],
        "vias": known(tree.vias),
    }
