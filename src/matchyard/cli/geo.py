"""`matchyard geo`: wireless meshes, multicast through random points, and the load of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from matchyard.cli.arguments import AsJson, read_count
from matchyard.cli.route import Plot, print_object, print_rows
from matchyard.cli.terminal import bar, clear, progress, say, shown, summary

if TYPE_CHECKING:
    from matchyard.geo import Mesh, Requests, Sending
    from matchyard.geo.scenario import Scenario

geo = typer.Typer(
    name="geo",
    help="Wireless meshes: multicast along trees through random points, and the load of the busiest node.",
    no_args_is_help=True,
)
MeshFile = Annotated[Path, typer.Argument(help="A mesh, as `matchyard geo mesh … -o FILE` writes.")]
Seed = Annotated[int, typer.Option(help="Seed of random choices: the same seed, the same result.")]
Workload = Annotated[
    str, typer.Option(help="Kind of generated requests: uniform, inline (a narrow band) or pair.")
]
Count = Annotated[str, typer.Option("--requests", help="Number of generated requests, e.g. 1k.")]
Band = Annotated[
    float | None,
    typer.Option(help="Width of the band of in-line requests.", show_default="the range"),
]
Recovery = Annotated[
    str, typer.Option(help="Recovery from dead ends of greedy paths: ring, face or none.")
]
Arc = Annotated[float, typer.Option(help="Degrees of arcs to either side, for rules C…")]
Runs = Annotated[int, typer.Option(min=1, help="Number of runs, each with other random choices.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads that send.")]
_PAIRS = 1_000  # sampled greedy paths


@geo.command()
def mesh(
    file: Annotated[
        Path | None, typer.Argument(help="GeoJSON of points; ranges are in metres then.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Instead of a file: random nodes in a square, e.g. 80k.")
    ] = None,
    side: Annotated[float, typer.Option(help="Side of that square.")] = 100.0,
    reach: Annotated[
        float | None, typer.Option("--range", help="How far nodes hear each other.")
    ] = None,
    interference: Annotated[
        float | None,
        typer.Option(help="How far nodes disturb each other.", show_default="the range"),
    ] = None,
    seed: Seed = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the mesh to this file.")
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Make a mesh from positions, and describe its connectivity."""
    from matchyard.errors import UsageError
    from matchyard.geo import from_geojson, save_mesh, uniform

    if (file is None) == (nodes is None):
        raise UsageError(
            "expected a file of GeoJSON or --nodes: `matchyard geo mesh town.geojson --range 3000` or "
            "`matchyard geo mesh --nodes 80k --side 100 --range 1`"
        )
    if reach is None:
        raise UsageError("no --range; expected the radio range of nodes, e.g. --range 3000")
    check_folders(output, plot)
    progress("making the mesh")
    if file is not None:
        made = from_geojson(file, reach, interference)
    else:
        made = uniform(read_count(nodes or ""), side, reach, interference, seed)
    row = _described(made, seed)
    clear()
    if output is not None:
        save_mesh(made, output)
        summary(f"wrote {output}")
    if plot is not None:
        from matchyard.bench.figures.geo_plots import draw_load

        draw_load(made, made.degrees.astype(float), plot, label="degree: nodes that a node hears")
        summary(f"drew {plot}")
    if as_json:
        print_object(row)
        return
    for name, value in row.items():
        say(f"{name:>36}  {value:,.4g}" if isinstance(value, float) else f"{name:>36}  {value:,}")


def _described(made: Mesh, seed: int) -> dict[str, Any]:
    """The connectivity of a mesh."""
    import numpy as np

    from matchyard.geo import components, coverage, route

    parts = components(made)
    sources, targets = np.random.default_rng(seed).choice(parts[0], (2, _PAIRS))
    stuck = ~route(made, sources, targets, recovery="none").arrives
    return {
        "nodes": len(made),
        "range": made.r_c,
        "interference range": made.r_i,
        "width": made.region[2] - made.region[0],
        "height": made.region[3] - made.region[1],
        "least degree": int(made.degrees.min()),
        "mean degree": float(made.degrees.mean()),
        "most degree": int(made.degrees.max()),
        "components": len(parts),
        "largest component": len(parts[0]),
        "farthest that a place is from a node": coverage(made),
        "share of greedy paths that get stuck": float(stuck.mean()),
    }


@geo.command()
def send(
    mesh: MeshFile,
    requests: Annotated[
        Path | None,
        typer.Argument(
            help='Lines such as {"id": "alarm", "source": "roof", "targets": ["barn", [8.95, 46.01]]}; without '
            "a file, requests are generated."
        ),
    ] = None,
    workload: Workload = "uniform",
    size: Annotated[int, typer.Option(help="Nodes of a generated request, with its source.")] = 8,
    count: Count = "1k",
    band: Band = None,
    routing: Annotated[
        str, typer.Option(help="The routing of paths: grd, gsp, dsp, grdrnd1 or grdrnd2.")
    ] = "grd",
    rule: Annotated[
        str,
        typer.Option(help="The rule for intermediate points: T60, T45, T30, C0 (straight) … C2."),
    ] = "T60",
    arc: Arc = 60.0,
    recovery: Recovery = "ring",
    runs: Runs = 50,
    seed: Seed = 1,
    threads: Threads = 1,
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map", help="Write a page with the load of each node and trees of requests."
        ),
    ] = None,
    geojson: Annotated[
        Path | None, typer.Option(help="Write nodes with their load as GeoJSON to this file.")
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(
            help="The id of a request whose tree is on the map; as often as needed.",
            show_default="the first 100",
        ),
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Send requests along trees through random points, and print the load of the busiest node.

    For comparison: flooding, one message per target, and a lower bound for every routing.
    """
    from matchyard.geo import Rule, flood, lower_bound, read_mesh
    from matchyard.geo import send as act

    check_folders(map_file, geojson, plot)
    net = read_mesh(mesh)
    given = _requests(net, requests, workload, read_count(count), size, band, seed)
    sending = act(
        net, given, routing, Rule(rule, arc), runs, seed, recovery=recovery, threads=threads,
        progress=_shown("runs", runs),
    )  # fmt: skip
    star = act(net, given, routing, "C0", 1, seed, recovery=recovery, tree="star")
    rows = [
        {"scheme": name, "congestion": one.congestion, "mean load": float(one.load.mean()),
         "transmissions": one.transmissions, "deliveries": one.work.deliveries / one.runs}
        for name, one in ((f"tree, {rule}", sending), ("one message per target", star),
                          ("flooding", flood(net, given)))
    ]  # fmt: skip
    progress("looking for the bound")
    bound = lower_bound(net, given)
    clear()
    _write_pictures(sending, map_file, geojson, show, plot)
    if as_json:
        print_object(
            {"nodes": len(net), "requests": len(given), "runs": sending.runs, "schemes": rows,
             "load bound": bound.load, "asserted bound": bound.asserted,
             "work of all runs": sending.work._asdict(), "undelivered": sending.undelivered}
        )  # fmt: skip
        return
    _print_sending(sending, rows, bound.asserted)


def check_folders(*paths: Path | None) -> None:
    """Refuse an output file in a missing folder, before the work rather than after it."""
    from matchyard.errors import UsageError

    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"no folder {path.parent} for {path.name}; make it first")


def _requests(
    net: Mesh, file: Path | None, name: str, n: int, size: int, band: float | None, seed: int
) -> Requests:
    from matchyard.geo.scenario import Scenario, make_workload
    from matchyard.geo.workload import from_jsonl

    if file is not None:
        return from_jsonl(file, net)
    wide = net.r_c if band is None else band
    return make_workload(net, Scenario(workload=name, requests=n, size=size, band=wide, seed=seed))


def _shown(what: str, total: int) -> Any:
    n_done = 0

    def show(n_more: int) -> None:
        nonlocal n_done
        n_done += n_more
        bar(what, n_done, total)

    return show


def _write_pictures(
    sending: Sending,
    map_file: Path | None,
    geojson: Path | None,
    show: list[str] | None,
    plot: Path | None,
) -> None:
    if map_file is not None:
        sending.save_map(map_file, trees=show)
        summary(f"wrote {map_file}")
    if geojson is not None:
        sending.to_geojson(geojson)
        summary(f"wrote {geojson}")
    if plot is not None:
        from matchyard.bench.figures.geo_plots import draw_load

        trees = [sending.follow(one) for one in show or []]
        draw_load(sending.mesh, sending.load, plot, trees=trees)
        summary(f"drew {plot}")


def _print_sending(sending: Sending, rows: list[dict[str, Any]], asserted: float) -> None:
    work, busiest = sending.work, int(sending.load.argmax())
    x, y = sending.mesh.lon_lat(sending.mesh.points[busiest : busiest + 1])[0].tolist()
    runs = "1 run" if sending.runs == 1 else f"{sending.runs:,} runs"
    say(
        f"{len(sending.requests):,} requests on {len(sending.mesh):,} nodes, {runs}: the busiest node, "
        f"{shown(sending.mesh.name(busiest))} at ({x:.6g}, {y:.6g}), hears {sending.congestion:,.1f} transmissions; "
        f"no routing that delivers all gets below {asserted:,.1f}"
    )
    _print_table(rows)
    if work.recoveries:
        searched = f"; searches out of them took {work.ring_transmissions / sending.runs:,.1f} transmissions more"
        say(
            f"{work.recoveries / sending.runs:,.1f} dead ends per run"
            + searched * (work.ring_transmissions > 0)
        )
    if work.lost:
        say(f"{work.lost / sending.runs:,.1f} deliveries per run lost in dead ends")
    if work.undelivered:
        some = [shown(f"{target} of {request}") for request, target in sending.undelivered[:5]]
        more = ["…"] if work.undelivered > len(some) else []
        say(f"in another component than their source: {', '.join([*some, *more])}")


@geo.command()
def compare(
    mesh: MeshFile,
    workload: Annotated[
        str, typer.Option(help="Requests: uniform, inline or pair; several with commas.")
    ] = "uniform",
    size: Annotated[
        str, typer.Option(help="Nodes of a request, with its source; several with commas.")
    ] = "2,4,8,16",
    rules: Annotated[
        str, typer.Option(help="Rules for intermediate points, with commas.")
    ] = "T60,T30,C0",
    routings: Annotated[str, typer.Option(help="Routings, with commas.")] = "grd",
    arc: Arc = 60.0,
    count: Count = "1k",
    band: Band = None,
    recovery: Recovery = "ring",
    runs: Runs = 50,
    seed: Seed = 1,
    threads: Threads = 1,
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Run each line as a task of Spark; needs matchyard\\[spark]."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare rules, routings and sizes of requests on one mesh, with flooding and one message per target."""
    from matchyard.geo import read_mesh
    from matchyard.geo.scenario import Scenario, baselines, cross, run_all

    net = read_mesh(mesh)
    base = Scenario(
        len(net), max(net.region[2] - net.region[0], net.region[3] - net.region[1]), net.r_c, net.r_i,
        requests=read_count(count), band=net.r_c if band is None else band, arc=arc, recovery=recovery, runs=runs,
        seed=seed,
    )  # fmt: skip
    sizes = [read_count(one) for one in size.split(",")]
    chosen = list(
        cross(base, workload=workload.split(","), size=sizes, routing=routings.split(","),
              rule=rules.split(","))
    )  # fmt: skip
    chosen += baselines(chosen)
    if spark:
        rows = _on_spark(chosen, net)
    else:
        rows = list(run_all(chosen, net, threads, _shown("scenarios", len(chosen))))
    clear()
    kept = ("workload", "size", "scheme", "congestion", "mean_load", "transmissions", "lost")
    for row in rows:
        row["scheme"] = _scheme(row)
        row["transmissions"] /= row["done_runs"]
        del row["mesh_seed"], row["side"]  # parameters of generated meshes
    rows.sort(key=lambda row: (row["workload"], row["size"]))
    if as_json:
        print_rows(rows, as_json=True)
    else:
        _print_table([{name: row[name] for name in kept} for row in rows])


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Print numbers with one digit after the point: loads are mean counts of some runs."""
    print_rows(
        [
            {
                name.replace("_", " "): f"{value:,.1f}" if isinstance(value, float) else value
                for name, value in row.items()
            }
            for row in rows
        ],
        as_json=False,
    )


def _scheme(row: dict[str, Any]) -> str:
    if row["tree"] == "flood":
        return "flooding"
    ways = f"{row['routing']}, {row['rule']}"
    return f"one message per target, {row['rule']}" if row["tree"] == "star" else ways


def _on_spark(chosen: list[Scenario], net: Mesh) -> list[dict[str, Any]]:
    from matchyard.spark import session
    from matchyard.spark.geo import collect, scenarios, simulate

    progress("starting Spark")
    spark = session()
    try:
        frame = simulate(scenarios(chosen, spark), net)
        rows: list[dict[str, Any]] = collect(
            frame, lambda done, total: bar("scenarios", done, total)
        ).to_pylist()
    finally:
        spark.stop()
    return rows
