"""The library's verbs as commands. Heavy modules are imported by the commands that need them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="matchyard",
    help="Match every event of a stream against millions of standing subscriptions.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

WORKLOADS = (
    "tags: twitter, twitter-popular, peers, skew, active-web, blog-posts, video, short-messages, "
    "bittorrent, icn, congress or ego-twitter; predicates: hem, ccm, ccm-zipf, json-eq, json-range, "
    "sigma or kdd."
)
Engine = Annotated[str, typer.Argument(help="The engine: tags or predicates.")]
Parameter = Annotated[
    list[str] | None, typer.Option(help="name=value for the workload, as often as needed.")
]
Size = Annotated[str, typer.Option(help="Subscriptions, e.g. 250k, 1M or 20M.")]
Seed = Annotated[int, typer.Option(help="Seed of the workload: the same seed, the same rows.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads that match.")]
Format = Annotated[
    str | None, typer.Option(help="jsonl, csv, parquet or arrow; by default the ending decides.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Column = Annotated[
    str | None,
    typer.Option(
        "--column",
        "--tags",
        help="The column (or JSON field) with the subscriptions or events; by default `tags`, and "
        "for predicates `predicate`, and the whole row for an event.",
    ),
]


def _number(text: str) -> int:
    """A count such as 250k, 1M or 20_000."""
    from matchyard.errors import UsageError

    factor = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}.get(text[-1:].lower(), 1)
    try:
        return int(float((text[:-1] if factor > 1 else text).replace("_", "")) * factor)
    except (ValueError, OverflowError):
        raise UsageError(f"not a count: {text!r}; expected e.g. 250k, 1M or 20000") from None


def _options(given: list[str]) -> dict[str, Any]:
    """Options given as name=value; numbers and true/false are read as such."""
    from matchyard.errors import UsageError

    chosen: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"not an option: {entry!r}; expected name=value, e.g. leaf=32")
        try:
            chosen[name] = json.loads(value)
        except ValueError:
            chosen[name] = value
    return chosen


def _say(message: str) -> None:
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end="\n" if not message else "", file=sys.stderr, flush=True)


def _done() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


@app.command()
def workload(
    engine: Engine,
    name: Annotated[str, typer.Argument(help=WORKLOADS)],
    size: Size = "100k",
    events: Annotated[str, typer.Option(help="How many events.")] = "10k",
    seed: Seed = 1,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")] = Path("."),
    format: Annotated[str, typer.Option(help="jsonl, parquet or arrow.")] = "parquet",
    parameter: Parameter = None,
) -> None:
    """Generate a named workload: subscriptions.* and events.* in a folder."""
    import pyarrow as pa

    import matchyard as my
    from matchyard.batches import as_table
    from matchyard.files import Writer

    empty = my.create(engine)
    source = my.workload(engine, name, _number(size), seed, _options(parameter or []))
    output.mkdir(parents=True, exist_ok=True)
    no_rows = pa.schema({})  # a workload has at least one subscription; events may be none
    with Writer(str(output / f"subscriptions.{format}"), format, no_rows) as file:
        done = 0
        for values, keys in source.chunks(100_000):
            if format == "jsonl":
                values = empty.texts(values)
            file.write(pa.table({empty.subscription_column: values, "key": keys}))
            done += len(keys)
            _say(f"{done:,} subscriptions")
    with Writer(str(output / f"events.{format}"), format, no_rows) as file:
        n_events = _number(events)
        for start in range(0, n_events, 100_000):
            values = source.events(min(100_000, n_events - start), start)
            if format == "jsonl" and pa.types.is_binary(values.type):
                file.write_lines(values)
                continue
            file.write(as_table(values, range(start, start + len(values)), empty.event_column))
    _done()
    print(f"{output}/subscriptions.{format}: {source.size:,} subscriptions", file=sys.stderr)
    print(f"{output}/events.{format}: {n_events:,} events", file=sys.stderr)


@app.command()
def build(
    engine: Engine,
    subscriptions: Annotated[
        str, typer.Argument(help="A file of subscriptions, or - for standard input.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the index.")],
    column: Column = None,
    key: Annotated[str, typer.Option(help="The column (or JSON field) with the keys.")] = "key",
    algorithm: Annotated[
        str | None, typer.Option(help="The algorithm; the engine's default if not given.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="name=value, as often as needed.")
    ] = None,
    format: Format = None,
) -> None:
    """Build an index from a file of subscriptions and save it."""
    import matchyard as my
    from matchyard.batches import located, rows_of

    index = my.create(engine, algorithm, _options(option or []))
    done = 0
    column = column or index.subscription_column
    for values, keys, first in rows_of(
        subscriptions, format, index.parse, column, key, need_key=True
    ):
        with located(subscriptions, first):
            index.add_many(values, keys)
        done += len(keys)
        _say(f"{done:,} subscriptions read")
    _say("compiling")
    index.consolidate()
    _say("saving")
    index.save(output)
    _done()
    found = index.info()
    print(
        f"{output}: {found['subscriptions']:,} subscriptions, {found['distinct']:,} distinct, "
        f"{found['names']:,} names, {found['index_bytes'] / 1e6:,.1f} MB",
        file=sys.stderr,
    )


@app.command()
def match(
    index: Annotated[Path, typer.Argument(help="A saved index.")],
    events: Annotated[str, typer.Argument(help="A file of events, or - for standard input.")] = "-",
    output: Annotated[
        str, typer.Option("-o", "--output", help="Where the pairs go; - is standard output.")
    ] = "-",
    column: Column = None,
    id: Annotated[
        str,
        typer.Option(help="The column (or JSON field) that names an event; its number if absent."),
    ] = "id",
    unique: Annotated[bool, typer.Option("--unique", help="Each key once per event.")] = False,
    arrays: Annotated[
        bool, typer.Option("--arrays", help="One row per event with its keys, not one per pair.")
    ] = False,
    bad: Annotated[
        Path | None, typer.Option(help="Write events that cannot be read here, and go on.")
    ] = None,
    threads: Threads = 1,
    format: Format = None,
    output_format: Annotated[
        str | None, typer.Option(help="Format of the output, likewise.")
    ] = None,
) -> None:
    """Match events against a saved index: pairs of event and key."""
    import matchyard as my
    from matchyard.batches import located, pairs, pairs_schema, rows_of
    from matchyard.files import Writer

    opened = my.open(index, threads=threads)
    find = opened.match_unique if unique else opened.match
    n_events = n_matches = 0
    column = column or opened.event_column
    schema = pairs_schema(opened.info()["keys"], arrays)
    with Writer(output, output_format, schema) as file:
        for values, ids, first in rows_of(events, format, opened.parse_event, column, id, bad=bad):
            with located(events, first):
                found = find(values)
            file.write(pairs(found, ids, arrays))
            n_events += len(found)
            n_matches += found.work.matches
            _say(f"{n_events:,} events, {n_matches:,} matches")
    _done()
    print(f"{n_events:,} events, {n_matches:,} matches", file=sys.stderr)


@app.command()
def explain(
    index: Annotated[Path, typer.Argument(help="A saved index.")],
    event: Annotated[str, typer.Argument(help='The event, e.g. "jazz oslo" or {"temp": 31}.')],
    key: Annotated[str, typer.Option(help="Whose subscriptions to explain.")],
) -> None:
    """Say why a key does or does not get an event."""
    import matchyard as my

    opened = my.open(index)
    number: int | str = key
    if opened.info()["keys"] == "int":
        try:
            number = int(key)
        except ValueError:
            raise my.UsageError(f"keys of {index} are integers, not {key!r}") from None
    print(opened.explain(event, number))


@app.command()
def info(
    index: Annotated[Path, typer.Argument(help="A saved index.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the checksum of every file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a saved index holds and what it takes."""
    import matchyard as my

    found = my.open(index, verify=verify).info()
    if as_json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        text = f"{value:,}" if isinstance(value, int) else str(value)
        print(f"{name:14} {text}")


@app.command()
def bench(
    engine: Annotated[
        str, typer.Argument(help="The engine; or spark, for ways to match in Spark.")
    ],
    workload: Annotated[
        str | None, typer.Option(help=f"{WORKLOADS} The engine's first if not given.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Subscriptions; by default the workload's own, 100k in Spark."),
    ] = None,
    algorithms: Annotated[
        str, typer.Option(help="Names of algorithms, or of ways, with commas between; or all.")
    ] = "all",
    threads: Annotated[int, typer.Option(min=1, help="Threads that match; cores of Spark.")] = 2,
    device: Annotated[str, typer.Option(help="cpu.")] = "cpu",
    events: Annotated[
        str | None,
        typer.Option(help="Events per pass; by default what takes about a second, 500k in Spark."),
    ] = None,
    common: Annotated[
        str, typer.Option(help="In Spark: events for slow ways, on which all are checked.")
    ] = "5k",
    passes: Annotated[int, typer.Option(min=1, help="Timed passes; the median counts.")] = 5,
    seed: Seed = 1,
    option: Annotated[
        list[str] | None, typer.Option(help="name=value for the algorithm, as often as needed.")
    ] = None,
    parameter: Parameter = None,
    form: Annotated[
        str | None,
        typer.Option(help="How events are given: arrow (default), python or json; Spark: parquet."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the comparison into this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on one workload in one run, and check that they agree."""
    import matchyard as my
    from matchyard.bench import compare
    from matchyard.bench.report import disagreement, draw, table

    options, names = _options(option or []), algorithms.split(",")
    if engine == "spark":
        if (device, form or "parquet") != ("cpu", "parquet"):
            raise my.UsageError("in Spark, the device is cpu and events come from parquet")
        from matchyard.bench import spark_jobs

        found = spark_jobs.compare(
            workload or "twitter", _number(size or "100k"), spark_jobs.ALL if algorithms == "all" else names,
            threads, seed, _number(events or "500k"), _number(common), passes, options, _say,
        )  # fmt: skip
    else:
        names = list(my.algorithms(engine)) if algorithms == "all" else names
        found = compare(
            engine, workload, _number(size) if size else None, tuple(names), threads, device, seed,
            _number(events) if events else None, passes, options, _options(parameter or []), _say,
            form or "arrow", _note,
        )  # fmt: skip
    results = []
    for result in found:
        results.append(result)
        if as_json:
            _done()
            print(json.dumps(result._asdict()), flush=True)
    _done()
    if not as_json:
        table(results)
    if plot is not None:
        draw(results, plot)
    problem = disagreement(results)
    if problem:
        print(f"matchyard: {problem}", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Figures, e.g. tagmatch-fig4; none lists them all.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Subscriptions at full scale, instead of the figure's own.")
    ] = None,
    threads: Threads = 2,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for results and plots.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a figure or table of the papers again, beside the published numbers (in a checkout)."""
    from matchyard.bench.figures import find_figures, run_figure

    figures = find_figures()
    if not names and as_json:
        print(json.dumps({name: figure.title for name, figure in figures.items()}))
        return
    if not names:
        for name, figure in figures.items():
            print(f"{name:22} {figure.title}")
        return
    for name in names:
        run_figure(figures, name, _number(size) if size else None, threads, output, as_json, _say)
        _done()


@app.command()
def demo(
    size: Size = "1M",
    seconds: Annotated[float, typer.Option(help="How long tweets arrive.")] = 30.0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for all files and the report.")
    ] = Path("demo"),
    threads: Threads = 2,
    seed: Seed = 1,
) -> None:
    """Run the main job on Spark: a stream of tweets against a million interests that change."""
    from matchyard.bench.demo import run

    if not run(_number(size), seconds, output, threads, seed):
        raise typer.Exit(1)


def main() -> None:
    """Run a command; errors are one line on standard error, and exit status 1."""
    from matchyard.errors import MatchyardError

    try:
        app(standalone_mode=True)
    except MatchyardError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _done()
        sys.exit(130)
    except Exception as error:
        cause = error.__cause__ or error.__context__
        if isinstance(error, SystemError) and isinstance(cause, KeyboardInterrupt):
            sys.exit(130)  # the interrupt came while a kernel handed back its result
        if os.environ.get("MATCHYARD_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error} (MATCHYARD_DEBUG=1 shows where)")


def _note(message: str) -> None:
    _done()
    print(f"matchyard: {message}", file=sys.stderr)


def _fail(message: str) -> None:
    _done()
    print(f"matchyard: {message}", file=sys.stderr)
    sys.exit(1)
