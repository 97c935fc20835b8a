"""`matchyard route`: spanning trees of a network, their labels, their cost, and the tables of routers."""

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
    help="Spanning trees of a network, labels for routing on them, their cost, and the tables of routers.",
    no_args_is_help=True,
)
Network = Annotated[
    Path,
    typer.Argument(
        help="A network: AS relations of CAIDA, a map of Rocketfuel, or a list of links."
    ),
]
Rule = Annotated[str, typer.Option(help="The rule that chooses roots: L, LC, H3 or degree.")]
Count = Annotated[
    int | None,
    typer.Option(min=1, help="Number of trees; by default 8, and with H3 one for each node."),
]
Seed = Annotated[int, typer.Option(help="Seed of random choices: the same seed, the same trees.")]
Plot = Annotated[
    Path | None,
    typer.Option(help="Draw the result into this file, e.g. a.png; needs matchyard\\[plot]."),
]
At = Annotated[
    str | None,
    typer.Option(help="The name of the router's node; by default one with most links."),
]
Workload = Annotated[
    str, typer.Option(help="The workload of tags whose subscriptions are registered.")
]
Placement = Annotated[
    str, typer.Option(help="The distribution of users over nodes: zipf, uniform or degree.")
]
_SHARES = {"p1": 0.01, "p5": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99}


def read_trees(
    network: Path, rule: str, count: int | None, seed: int
) -> tuple[Topology, list[Tree]]:
    """Read a network from a file, and grow spanning trees."""
    from matchyard.routing import first_equal, grow, topology

    progress(f"reading {network}")
    graph = topology(network)
    progress(f"growing trees by rule {rule}")
    trees = grow(graph, rule, count or (None if rule == "H3" else min(8, graph.n_nodes)), seed)
    clear()
    n_different = len(set(first_equal(trees)))
    summary(
        f"{network.name}: {graph.n_nodes:,} nodes, {graph.n_links:,} links; "
        f"different trees: {n_different:,} of {len(trees):,}"
    )
    return graph, trees


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print a table, or a JSON object for each row."""
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
    """Print a row as JSON."""
    known = {name: None if _is_nan(value) else value for name, value in row.items()}
    print(json.dumps(known), flush=True)


def _is_nan(value: Any) -> bool:
    """True if the value is a NaN, which JSON does not have."""
    return isinstance(value, float) and math.isnan(value)


def _counts(grown: list[Tree]) -> list[int]:
    """The numbers 1, 2, 4, … and that of all trees."""
    return sorted({*(2**power for power in range(len(grown).bit_length())), len(grown)})


def _spread(values: Distribution) -> dict[str, float]:
    return {
        "min": values.quantile(0.0),
        **{name: values.quantile(share) for name, share in _SHARES.items()},
        "max": values.quantile(1.0),
        "mean": values.mean,
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
    """Grow spanning trees of a network, and print their roots and depths."""
    from matchyard.routing import first_equal

    graph, grown = read_trees(network, rule, count, seed)
    if output is not None:
        _write(graph, grown, output)
    if plot is not None:
        from matchyard.bench.figures.network_plots import draw_trees

        draw_trees(graph, grown, plot)
        summary(f"drew {plot}")
    print_rows(
        [
            {
                "tree": number,
                "root": graph.names[tree.root],
                "links of root": int(graph.degrees[tree.root]),
                "depth": int(tree.depth.max()),
                "mean depth": float(tree.depth.mean()),
                "equal to tree": first,
            }
            for number, (tree, first) in enumerate(zip(grown, first_equal(grown), strict=True))
        ],
        as_json,
    )


def _write(graph: Topology, grown: list[Tree], path: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = np.array([*graph.names, ""], object)  # the root's parent has no name
    table = pa.table(
        {
            "tree": np.repeat(np.arange(len(grown)), graph.n_nodes),
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
    """Label the nodes of trees, and print the bits that a packet needs for its destination."""
    from matchyard.routing import label

    graph, grown = read_trees(network, rule, count, seed)
    rows = []
    for number, tree in enumerate(grown):
        bits = label(graph, tree, number).bits()
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
    """Print how much longer paths are on trees, exactly for all pairs of nodes, by number of trees."""
    from matchyard.routing import stretch as measure

    graph, grown = read_trees(network, rule, count, seed)
    n_done = 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        bar("paths from nodes", n_done, graph.n_nodes)

    by_count = measure(graph, grown, _counts(grown), show)
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
    """Print the load of links relative to the best use of all links, by number of trees.

    Links outside all trees are left out; the share of used links is printed.
    """
    from matchyard.routing import congestion as measure
    from matchyard.routing import distribution

    graph, grown = read_trees(network, rule, count, seed)
    rows, by_count = [], {}
    for number in _counts(grown):
        loads = measure(graph, grown[:number])
        used = by_count[number] = distribution(loads[loads > 0])
        share = used.n / max(1, graph.n_links)
        rows.append({"trees": number, "links in use": share, **_spread(used)})
    _draw("congestion of links in use", by_count, plot, is_log=True)
    print_rows(rows, as_json)


def _draw(x: str, by_count: dict[int, Distribution], plot: Path | None, is_log: bool) -> None:
    """Draw a line for each number of trees."""
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
    """Print the size of a router's table for the registrations of a network, by number of trees.

    For each number of trees: the least, the mean and the most over all choices of trees; with more than 16 trees,
    only for all trees. Bytes are those of the most: 60 per filter as in the thesis, and 32 per filter and 2 per
    entry.
    """
    from matchyard import workload as make
    from matchyard.routing import links_at, register_workload, table_by_parts
    from matchyard.routing.registrations import PART

    graph, grown = read_trees(network, rule, count, seed)
    node = int(graph.degrees.argmax()) if at is None else graph.node(at)
    source, n_done = make("tags", workload, read_count(size), seed), 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        bar("registrations", n_done, source.size)

    show(0)
    if output is None and source.size > PART:
        table = table_by_parts(source, graph, grown, node, placement, seed, progress=show)
    else:
        registered = register_workload(source, graph, placement, seed)
        table = registered.table(graph, grown, node)
    clear()
    summary(
        f"node {graph.names[node]}: {graph.degrees[node]:,} links; {source.size:,} registrations"
    )
    if output is not None:
        table.rib(links_at(graph, grown, node)).save(output)
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
