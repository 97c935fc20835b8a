"""`matchyard route simulate` and `trace`: the paths and delays of notifications on a network, and the reason
why a notification does not arrive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from matchyard.cli.arguments import AsJson, Size, read_count
from matchyard.cli.route import (
    Count,
    Network,
    Placement,
    Plot,
    Rule,
    Seed,
    Workload,
    print_object,
    print_rows,
    read_trees,
    route,
)
from matchyard.cli.terminal import bar, clear, progress, say, summary

if TYPE_CHECKING:
    import pyarrow as pa

    from matchyard.network import Links, Notifications, Run
    from matchyard.routing import Topology, Tree

__all__ = ["route"]
_WAYS, _DESCRIPTORS = ("subtree", "hops"), ("tags", "bloom")


class _Setting(NamedTuple):
    """A network with registrations."""

    topology: Topology
    trees: list[Tree]
    tags: pa.Array
    nodes: Any  # of each registration
    descriptors: str
    rule: str
    seed: int


@route.command()
def simulate(
    network: Network,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    workload: Workload = "icn",
    size: Size = "3k",
    events: Annotated[
        str, typer.Option(help="Number of notifications, e.g. 10k: events of the workload.")
    ] = "10k",
    placement: Placement = "zipf",
    by: Annotated[
        str,
        typer.Option(
            help="The method for paths: subtree (one search for each notification) or hops (a router at each "
            "node; for up to some thousand nodes). Both give the same links."
        ),
    ] = "subtree",
    descriptors: Annotated[
        str, typer.Option(help="What routers compare: tags, or bloom for Bloom filters.")
    ] = "tags",
    interval: Annotated[float, typer.Option(min=0, help="Time between two notifications.")] = 0.0,
    delay: Annotated[
        str | None,
        typer.Option(
            help="Delay of a link: a number, or weights for those of the file.", show_default="1"
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Copies per unit of time on a link; others wait.", show_default="any"),
    ] = None,
    loss: Annotated[
        float, typer.Option(min=0, max=1, help="Probability that a link loses a copy.")
    ] = 0.0,
    resends: Annotated[
        int, typer.Option(min=0, help="Number of retries of a lost copy, each after two delays.")
    ] = 0,
    queue: Annotated[
        int | None,
        typer.Option(
            min=0, help="Copies that may wait for a link; others are lost.", show_default="any"
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="A node whose table sizes are printed; as often as needed."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write deliveries, load and losses as Parquet to this folder."
        ),
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Send many notifications over a network, and print hops, loads of links and losses.

    Subscriptions of a workload are registered at the nodes of their users. The source and the tree of a notification
    are uniformly random. Without --delay, --rate, --loss and --queue, time counts hops.
    """
    from matchyard.network import draw_notifications
    from matchyard.network.collectors import summary as in_short
    from matchyard.routing import first_equal

    _check(by, _WAYS, "--by")
    _check(descriptors, _DESCRIPTORS, "--descriptors")
    setting, source = _placed(
        network, rule, count, seed, workload, read_count(size), placement, descriptors
    )
    given = draw_notifications(
        source.events(read_count(events)),
        setting.topology,
        len(setting.trees),
        seed,
        interval=interval,
    )
    for name in at or []:
        setting.topology.node(name)
    links = _links(setting.topology, delay, rate, loss, resends, queue, seed)
    act = _by_hops if by == "hops" else _by_subtree
    run, sizes = act(setting, given, links, at or [])
    clear()
    row = in_short(run).to_row()
    if descriptors == "bloom" and links is None:
        row["false_forwards"] = int(run.load.sum() - _exact(setting, given).load.sum())
    if output is not None:
        _write(run, output)
    if plot is not None:
        from matchyard.bench.figures.network_plots import draw_run

        draw_run(run, plot)
        summary(f"drew {plot}")
    if as_json:
        n_trees, n_different = len(setting.trees), len(set(first_equal(setting.trees)))
        row |= {"trees": n_trees, "different_trees": n_different, "tables": sizes.to_pylist()}
        print_object(row)
        return
    _print_run(row, sizes.to_pylist())


def _check(value: str, known: tuple[str, ...], option: str) -> None:
    from matchyard.errors import UsageError

    if value not in known:
        raise UsageError(f"{option} {value}; expected {' or '.join(known)}")


def _placed(
    network: Path,
    rule: str,
    count: int | None,
    seed: int,
    workload: str,
    size: int,
    placement: str,
    descriptors: str,
) -> tuple[_Setting, Any]:
    """Register subscriptions of a workload at the nodes of their users; also return the workload."""
    from matchyard import workload as make
    from matchyard.routing import place

    graph, grown = read_trees(network, rule, count, seed)
    progress(f"making {size:,} registrations")
    source = make("tags", workload, size, seed)
    tags, users = source.subscriptions(0, source.size)
    nodes = place(users, graph, placement, seed)
    return _Setting(graph, grown, tags, nodes, descriptors, rule, seed), source


def _links(
    topology: Topology,
    delay: str | None,
    rate: float | None,
    loss: float,
    resends: int,
    queue: int | None,
    seed: int,
) -> Links | None:
    """The properties of links, or None if time counts hops."""
    from matchyard.errors import UsageError
    from matchyard.network import Links

    if delay is None and rate is None and not loss and queue is None:
        return None
    try:
        each = topology.weights if delay == "weights" else float(delay or 1)
    except ValueError:
        raise UsageError(f"--delay {delay}; expected a number, or weights") from None
    most = float("inf")
    return Links(
        each,
        most if rate is None else rate,
        loss,
        resends,
        queue=most if queue is None else queue,
        seed=seed,
    )


def _by_subtree(
    setting: _Setting, given: Notifications, links: Links | None, at: list[str]
) -> tuple[Run, pa.Table]:
    from matchyard.network import simulate_by_subtree
    from matchyard.network.collectors import sizes_as_table
    from matchyard.routing import Registrations, Vocabulary

    topology, trees = setting.topology, setting.trees
    progress("looking for subsets among registrations")
    registered = Registrations(setting.tags, setting.nodes)
    filters = None
    if setting.descriptors == "bloom":
        filters = Registrations(setting.tags, setting.nodes, Vocabulary("bloom"))
    run = simulate_by_subtree(
        topology, trees, registered, given, links, filters=filters, progress=_shown(given.n)
    )
    tables = [(filters or registered).table(topology, trees, topology.node(name)) for name in at]
    return run, sizes_as_table(at, [table.memory() for table in tables])


def _by_hops(
    setting: _Setting, given: Notifications, links: Links | None, at: list[str]
) -> tuple[Run, pa.Table]:
    from matchyard.network import Network, simulate_by_hops
    from matchyard.network.collectors import table_sizes

    names = setting.topology.names
    progress(f"making {len(names):,} routers")
    net = Network(
        setting.topology, len(setting.trees), setting.rule, setting.seed, setting.descriptors
    )
    net.register_many(
        setting.tags.to_pylist(),
        [names[node] for node in setting.nodes.tolist()],
        range(len(setting.tags)),
    )
    run = simulate_by_hops(net, given, links, progress=_shown(given.n))
    return run, table_sizes(net, at)


def _exact(setting: _Setting, given: Notifications) -> Run:
    return _by_subtree(setting._replace(descriptors="tags"), given, None, [])[0]


def _shown(total: int) -> Any:
    n_done = 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        bar("notifications", n_done, total)

    return show


def _write(run: Run, folder: Path) -> None:
    import pyarrow.parquet as pq

    from matchyard.network import collectors

    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (
        ("deliveries", collectors.deliveries),
        ("load", collectors.link_load),
        ("losses", collectors.losses),
    ):
        pq.write_table(make(run), folder / f"{name}.parquet")
    summary(f"wrote deliveries, load and losses to {folder}")


def _print_run(row: dict[str, Any], sizes: list[dict[str, Any]]) -> None:
    """Print a summary, then distributions, then sizes of tables."""
    say(
        f"{row['notifications']:,} notifications, {row['wanted']:,} of them wanted: {row['copies']:,} copies on "
        f"{row['links_used']:.1%} of links, {row['deliveries']:,} deliveries, the last at {row['last_time']:.6g}"
    )
    if row["lost"]:
        say(f"{row['lost']:,} copies lost; {row['missed']:,} deliveries missed by that")
    if "false_forwards" in row:
        say(f"{row['false_forwards']:,} copies went astray by Bloom filters")
    spreads = ("mean", "median", "p95", "p99", "max")
    print_rows(
        [
            {"of": what, **{name: row[f"{key}, {name}"] for name in spreads}}
            for key, what in (
                ("hops", "hops of a delivery"),
                ("stretch", "stretch of a delivery"),
                ("load", "copies on a link in use"),
            )
        ],
        as_json=False,
    )
    if sizes:
        print_rows([{key: row[key] for key in row if key != "moment"} for row in sizes], False)


@route.command()
def trace(
    network: Network,
    register: Annotated[
        list[str],
        typer.Option(
            help='Tags, node and key of an application: "jazz live@oslo=ada"; as often as needed.'
        ),
    ],
    tags: Annotated[str, typer.Option(help='The tags of the notification: "jazz live tonight".')],
    at: Annotated[str, typer.Option(help="The name of its first node.")],
    key: Annotated[str, typer.Option(help="The key of the application that should get it.")],
    tree: Annotated[int, typer.Option(help="The number of its tree.")] = 0,
    rule: Rule = "LC",
    count: Count = None,
    seed: Seed = 1,
    descriptors: Annotated[
        str, typer.Option(help="What routers compare: tags, or bloom for Bloom filters.")
    ] = "tags",
    as_json: AsJson = False,
) -> None:
    """Follow a notification to one application, hop by hop, and explain where it stops.

    Each node gets a router, so a network can have up to some thousand nodes.
    """
    from matchyard.network import Network

    _check(descriptors, _DESCRIPTORS, "--descriptors")
    graph, grown = read_trees(network, rule, count, seed)
    net = Network(graph, len(grown), rule, seed, descriptors)
    wanted = [_registration(one) for one in register]
    net.register_many(*([one[column] for one in wanted] for column in range(3)))
    traced = net.trace(tags, at, key, tree)
    if as_json:
        print_object({"arrives": traced.arrives, "hops": [hop._asdict() for hop in traced.hops]})
    else:
        say(str(traced))


def _registration(text: str) -> tuple[str, str, str]:
    """Parse tags, node and key of a registration."""
    from matchyard.errors import UsageError

    rest, equals, key = text.rpartition("=")
    tags, sign, node = rest.rpartition("@")
    if not (equals and sign and key and node):
        raise UsageError(
            f'--register {text}; expected tags, node and key, e.g. "jazz live@oslo=ada"'
        )
    return tags, node, key
