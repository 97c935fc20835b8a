"""`matchyard route`: trees that span a network, labels on them, what they cost, and what routers store."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from matchyard.cli.arguments import AsJson, Size, read_count
from matchyard.cli.terminal import bar, clear, progress, say, summary

if TYPE_CHECKING:
    from matchyard.routing import Distribution, Topology, Tree

route = typer.Typer(
    name="route",
    help="Trees that span a network, labels that route on them, what they cost and what routers store.",
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
Plot = Annotated[
    Path | None, typer.Option(help="Draw it into this file, e.g. a.png; needs matchyard\\[plot].")
]
At = Annotated[
    str | None,
    typer.Option(help="The name of the node whose router it is; by default one with most links."),
]
Workload = Annotated[
    str, typer.Option(help="Whose subscriptions are registered: a workload of tags.")
]
Placement = Annotated[
    str, typer.Option(help="How users are spread over nodes: zipf, uniform or degree.")
]
_SHARES = {"p1": 0.01, "p5": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}


def read_trees(
    network: Path, rule: str, count: int | None, seed: int
) -> tuple[Topology, list[Tree]]:
    """The network of a file, and trees that span it."""
    from matchyard.routing import grow, topology

    progress(f"reading {network}")
    found = topology(network)
    progress(f"growing trees by rule {rule}")
    trees = grow(found, rule, count or (None if rule == "H3" else min(8, found.n_nodes)), seed)
    clear()
    summary(f"{network.name}: {found.n_nodes:,} nodes, {found.n_links:,} links")
    return found, trees


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    """A table, or an object for each row."""
    if as_json:
        for row in rows:
            print_object(row)
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


def print_object(row: dict[str, Any]) -> None:
    """A row as JSON."""
    known = {name: None if _is_nan(value) else value for name, value in row.items()}
    print(json.dumps(known), flush=True)


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
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Grow trees that span a network: the root of each, and how deep it is."""
    found, grown = read_trees(network, rule, count, seed)
    if output is not None:
        _write(found, grown, output)
    if plot is not None:
        from matchyard.bench.figures.network_plots import draw_trees

        draw_trees(found, grown, plot)
        summary(f"drew {plot}")
    print_rows(
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

    found, grown = read_trees(network, rule, count, seed)
    rows = []
    for number, tree in enumerate(grown):
        bits = label(found, tree, number).bits()
        longest, mean = int(bits.max()), float(bits.mean())
        rows.append({"tree": number, "longest, bits": longest, "mean, bits": mean})
    print_rows(rows, as_json)


@route.command()
def stretch(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """How much longer paths are on trees, for all pairs of nodes exactly, by number of trees."""
    from matchyard.routing import stretch as measure

    found, grown = read_trees(network, rule, count, seed)
    n_done = 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        bar("paths from nodes", n_done, found.n_nodes)

    by_count = measure(found, grown, _counts(grown), show)
    clear()
    _draw("mean stretch over trees", by_count, plot, is_log=False)
    print_rows(
        [{"trees": number, "pairs": one.n, **_spread(one)} for number, one in by_count.items()],
        as_json,
    )


@route.command()
def congestion(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """How much more links carry than with the best use of all links, by number of trees.

    Links that no tree uses are left out; the share of those in use is stated.
    """
    from matchyard.routing import congestion as measure
    from matchyard.routing import distribution

    found, grown = read_trees(network, rule, count, seed)
    rows, by_count = [], {}
    for number in _counts(grown):
        loads = measure(found, grown[:number])
        used = by_count[number] = distribution(loads[loads > 0])
        share = used.n / max(1, found.n_links)
        rows.append({"trees": number, "links in use": share, **_spread(used)})
    _draw("congestion of links in use", by_count, plot, is_log=True)
    print_rows(rows, as_json)


def _draw(x: str, by_count: dict[int, Distribution], plot: Path | None, is_log: bool) -> None:
    """A line for each number of trees."""
    if plot is None:
        return
    from matchyard.bench.figures.network_plots import draw_shares

    named = {f"{count} tree{'s' * (count > 1)}": one for count, one in by_count.items()}
    draw_shares(x, named, plot, is_log)
    summary(f"drew {plot}")


@route.command()
def rib(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    at: At = None,
    workload: Workload = "icn",
    size: Size = "100k",
    placement: Placement = "zipf",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Save the RIB with all trees to this folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a router stores of the registrations of a network, by number of trees.

    Of all ways to choose so many of the trees, the least, the mean and the most; of more than 16 trees, all. Bytes are of the most: at 60 for
    a filter as in the thesis, and at 32 for a filter and 2 for an entry.
    """
    from matchyard import workload as make
    from matchyard.routing import links_at, register_workload, table_by_parts
    from matchyard.routing.registrations import PART

    found, grown = read_trees(network, rule, count, seed)
    node = int(found.degrees.argmax()) if at is None else found.node(at)
    source, n_done = make("tags", workload, read_count(size), seed), 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        bar("registrations", n_done, source.size)

    show(0)
    if output is None and source.size > PART:
        table = table_by_parts(source, found, grown, node, placement, seed, progress=show)
    else:
        registered = register_workload(source, found, placement, seed)
        table = registered.table(found, grown, node)
    clear()
    summary(
        f"node {found.names[node]}: {found.degrees[node]:,} links; {source.size:,} registrations"
    )
    if output is not None:
        table.rib(links_at(found, grown, node)).save(output)
        summary(f"saved {output}")
    print_rows(
        [
            {
                "trees": one.n_trees,
                "filters, least": one.filters[0],
                "mean": one.filters[1],
                "most": one.filters[2],
                "entries, most": one.entries[2],
                "bytes, thesis": one.memory().thesis_bytes,
                "bytes, compact": one.memory().compact_bytes,
            }
            for one in table.sizes()
        ],
        as_json,
    )
