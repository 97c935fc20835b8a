"""`matchyard route`: trees that span a network, labels on them, and what they cost."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from matchyard.cli.arguments import AsJson
from matchyard.cli.terminal import clear, progress, say, summary

if TYPE_CHECKING:
    from matchyard.routing import Distribution, Topology, Tree

route = typer.Typer(
    name="route",
    help="Trees that span a network, labels that route on them, and what they cost.",
    no_args_is_help=True,
)
Network = Annotated[
    Path,
    typer.Argument(
        help="A network: AS relations of CAIDA, a map of Rocketfuel, or a list of links."
    ),
]
Rule = Annotated[str, typer.Option(help="How roots are chosen: L, LC, H3 or degree.")]
Count = Annotated[
    int | None,
    typer.Option(min=1, help="How many trees; by default 8, and with H3 one for each node."),
]
Seed = Annotated[int, typer.Option(help="Seed of what is random: the same seed, the same trees.")]
_SHARES = {"p1": 0.01, "p5": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}


def _trees(network: Path, rule: str, count: int | None, seed: int) -> tuple[Topology, list[Tree]]:
    from matchyard.routing import grow, topology

    progress(f"reading {network}")
    found = topology(network)
    progress(f"growing trees by rule {rule}")
    trees = grow(found, rule, count or (None if rule == "H3" else min(8, found.n_nodes)), seed)
    clear()
    summary(f"{network.name}: {found.n_nodes:,} nodes, {found.n_links:,} links")
    return found, trees


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    """A table, or an object for each row."""
    if as_json:
        for row in rows:
            known = {name: None if _is_nan(value) else value for name, value in row.items()}
            print(json.dumps(known), flush=True)
        return
    texts = [
        {
            name: f"{value:.3f}" if isinstance(value, float) else str(value)
            for name, value in row.items()
        }
        for row in rows
    ]
    widths = {name: max(len(name), *(len(row[name]) for row in texts)) for name in texts[0]}
    say("  ".join(f"{name:>{width}}" for name, width in widths.items()))
    for row in texts:
        say("  ".join(f"{row[name]:>{width}}" for name, width in widths.items()))


def _is_nan(value: Any) -> bool:
    """JSON has no such number."""
    return isinstance(value, float) and math.isnan(value)


def _counts(grown: list[Tree]) -> list[int]:
    """1, 2, 4, … and all trees."""
    return sorted({*(2**power for power in range(len(grown).bit_length())), len(grown)})


def _spread(found: Distribution) -> dict[str, float]:
    return {
        "min": found.quantile(0.0),
        **{name: found.quantile(share) for name, share in _SHARES.items()},
        "max": found.quantile(1.0),
        "mean": found.mean,
    }


@route.command()
def trees(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write tree, node and parent as Parquet to this file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Grow trees that span a network: the root of each, and how deep it is."""
    found, grown = _trees(network, rule, count, seed)
    if output is not None:
        _write(found, grown, output)
    _print(
        [
            {
                "tree": number,
                "root": found.names[tree.root],
                "links of root": int(found.degrees[tree.root]),
                "depth": int(tree.depth.max()),
                "mean depth": float(tree.depth.mean()),
            }
            for number, tree in enumerate(grown)
        ],
        as_json,
    )


def _write(found: Topology, grown: list[Tree], path: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = np.array([*found.names, ""], object)  # the root's parent has no name
    table = pa.table(
        {
            "tree": np.repeat(np.arange(len(grown)), found.n_nodes),
            "node": pa.array(np.tile(names[:-1], len(grown)), pa.string()),
            "parent": pa.array(names[np.concatenate([tree.parent for tree in grown])], pa.string()),
        }
    )
    pq.write_table(table, path)
    summary(f"wrote {path}")


@route.command()
def labels(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Label the nodes of trees: how many bits a packet needs to name its destination."""
    from matchyard.routing import label

    found, grown = _trees(network, rule, count, seed)
    rows = []
    for number, tree in enumerate(grown):
        bits = label(found, tree, number).bits()
        longest, mean = int(bits.max()), float(bits.mean())
        rows.append({"tree": number, "longest, bits": longest, "mean, bits": mean})
    _print(rows, as_json)


@route.command()
def stretch(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """How much longer paths are on trees, for all pairs of nodes exactly, by number of trees."""
    from matchyard.routing import stretch as measure

    found, grown = _trees(network, rule, count, seed)
    n_done = 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        progress(f"paths from {n_done:,} of {found.n_nodes:,} nodes")

    by_count = measure(found, grown, _counts(grown), show)
    clear()
    _print(
        [{"trees": number, "pairs": one.n, **_spread(one)} for number, one in by_count.items()],
        as_json,
    )


@route.command()
def congestion(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """How much more links carry than with the best use of all links, by number of trees.

    Links that no tree uses are left out; the share of those in use is stated.
    """
    from matchyard.routing import congestion as measure
    from matchyard.routing import distribution

    found, grown = _trees(network, rule, count, seed)
    rows = []
    for number in _counts(grown):
        loads = measure(found, grown[:number])
        used = distribution(loads[loads > 0])
        share = used.n / max(1, found.n_links)
        rows.append({"trees": number, "links in use": share, **_spread(used)})
    _print(rows, as_json)
