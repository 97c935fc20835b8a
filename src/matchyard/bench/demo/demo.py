"""The demo: Spark matches a stream of tweets with a million interests, which change meanwhile."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import matchyard as my
from matchyard.bench.compare.report import short
from matchyard.bench.demo.report import Facts, write_report
from matchyard.bench.demo.tally import Tally, hashtags, user
from matchyard.bench.demo.view import View, seen_line
from matchyard.errors import UsageError

if TYPE_CHECKING:
    from matchyard.bench.demo.check import Checked
    from matchyard.bench.demo.pipeline import Places

_MARK = ".matchyard-demo"  # marks folders that a demo made and may empty
_LARGE = 10_000  # interests; from this size on, kernels are compiled before the measurement


def run(size: int, seconds: float, output: Path, threads: int, seed: int) -> bool:
    """Generate, build, stream, change, check, sum up; False if the check finds a difference."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UsageError(
            "the demo runs on Spark, and PySpark is not here: pip install 'matchyard[spark,plot]'"
        ) from None
    if size < 1 or seconds <= 0:
        raise UsageError(f"a demo of {size} interests for {seconds} s; expected more than none")
    from matchyard.bench.demo.pipeline import Places

    _clear(output)
    console, begin = Console(), time.perf_counter()
    console.print(f"[bold]Matchyard[/bold] {my.__version__}: tweets on Spark against {size:,} interests",
                  highlight=False)  # fmt: skip
    places = Places(output.resolve())
    with _no_logging(), _spark(console, places.root, threads) as spark, _plain_interrupts():
        tally = Tally(size, seconds)
        _prepare(spark, places, tally, seed, threads, console)
        is_whole = _stream(spark, places, tally, seed, console)
        checked = _check(places, tally, threads, console) if is_whole else None
    report = output / "report.html"
    rows = summary(tally, places, checked)
    facts = Facts(rows, seed, threads, time.perf_counter() - begin, checked)
    write_report(report, tally, facts, places.dead_letters)
    _sum_up(rows, report, console)
    if not is_whole:
        raise KeyboardInterrupt
    return checked is not None and checked.problem is None


def _clear(output: Path) -> None:
    """Empty a folder, if a demo made it."""
    if output.exists() and any(output.iterdir()):
        if not (output / _MARK).exists():
            raise UsageError(
                f"{output} holds other things: choose a new folder, e.g. -o {output}/demo"
            )
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / _MARK).touch()


# -------------------------------------------------------------------- Spark


@contextmanager
def _spark(console: Console, root: Path, threads: int) -> Iterator[Any]:
    """The running session, or a new one that logs into a file."""
    from matchyard.spark import session
    from matchyard.spark.session import find_session

    try:
        running = find_session()
    except UsageError:
        running = None
    if running is not None:
        yield running  # its owner stops it
        return
    log = root / "spark.log"
    with _step(console, "starting Spark on this machine", lambda _: f"log in {log.name}"):
        try:
            with _errors_to(log):
                spark = session(cores=threads, name="matchyard demo")
        except Exception as error:
            raise UsageError(f"Spark does not start: {error}; see {log}") from None
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Redirect stderr of new processes to a file, so that it does not disturb the view."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Make Ctrl-C a KeyboardInterrupt: PySpark's handler would cancel the stream's job, which then
    fails with another error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _no_logging() -> Iterator[None]:
    """Disable logging: Py4J logs a stack trace for every call that Ctrl-C interrupts."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class _Said:
    """The result and duration of a step, filled in while it runs."""

    seconds = 0.0
    result: Any = None


@contextmanager
def _step(console: Console, what: str, told: Any) -> Iterator[_Said]:
    """Print the current step, then its duration and result."""
    said, start = _Said(), time.perf_counter()
    if console.is_terminal:
        with console.status(f"{what} …"):
            yield said
    else:
        yield said
    said.seconds = time.perf_counter() - start
    line = Text.assemble((f"{said.seconds:6.1f} s  ", "dim"), what, (f": {told(said)}", "dim"))
    console.print(line, soft_wrap=True, highlight=False)


# -------------------------------------------------------------------- steps


def _prepare(
    spark: Any, places: Places, tally: Tally, seed: int, threads: int, console: Console
) -> None:
    from matchyard.bench.demo import pipeline

    size = tally.size
    if size >= _LARGE:
        with (
            _step(console, "preparing kernels", lambda _: "compiled once per machine"),
            tempfile.TemporaryDirectory(dir=places.root) as folder,
        ):
            pipeline.warm_up(spark, Path(folder))
    with _step(console, "generating interests", lambda s: f"{short(size / s.seconds)}/s, Parquet"):
        pipeline.generate(spark, places, size, seed, 2 * threads)
    with _step(console, "building the index", lambda s: _built(s.result, size)) as said:
        said.result = pipeline.build_index(spark, places)
    tally.build_s, tally.index_bytes = said.result.seconds, said.result.index_bytes


def _built(built: Any, size: int) -> str:
    mb = built.index_bytes / 1e6
    return f"{short(size / built.seconds)} interests/s, {mb:,.1f} MB, version {int(built.version)}"


def _stream(spark: Any, places: Places, tally: Tally, seed: int, console: Console) -> bool:
    """Run the stream; False if the user interrupted it."""
    from matchyard.bench.demo.pipeline import Stream

    source = my.workload("tags", "twitter", tally.size, seed)
    stream = Stream(spark, places, source, tally)
    is_whole = True
    console.print()
    try:
        stream.start()
        with View(console, tally) as view:
            stream.run(view.tick)
    except KeyboardInterrupt:
        is_whole = False
        console.print("stopping …", style="dim")
    finally:
        stream.close()
    if not console.is_terminal:
        for seen in list(tally.seen)[-3:]:
            console.print(Text("  ").append(seen_line(seen, 4)), soft_wrap=True, highlight=False)
    console.print()
    return is_whole


def _check(places: Places, tally: Tally, threads: int, console: Console) -> Checked:
    from matchyard.bench.demo.check import check

    with _step(console, "checking", lambda s: "everything again, without Spark") as said:
        said.result = check(places, tally.changes, threads)
    checked: Checked = said.result
    return checked


# -------------------------------------------------------------------- summary


def summary(tally: Tally, places: Places, checked: Checked | None) -> list[tuple[str, str]]:
    """A summary of the run in a few lines."""
    steady, (median, most) = tally.steady(), tally.latency()
    versions = ", ".join(
        f"v{version} from batch {batch.number}" for version, batch in tally.versions().items()
    )
    joined = sum(len(change.added) for change in tally.changes)
    left = sum(len(change.removed) for change in tally.changes)
    return [
        ("interests", f"{tally.size:,}; built in {tally.build_s:.1f} s, "
                      f"{short(tally.size / max(tally.build_s, 1e-9))}/s"),
        ("tweets", f"{tally.total('events'):,} in {len(tally.batches)} batch"
                   f"{'es' * (len(tally.batches) != 1)}; "
                   f"{short(steady.events_per_s)} tweets/s"),
        ("matches", f"{tally.total('matches'):,}; {short(steady.matches_per_s)} matches/s"),
        ("rates", f"of {steady.what}, including reading files and writing Parquet"),
        ("batch latency", f"median {median:.2f} s, longest {most:.2f} s, without the first batch"),
        ("changes", f"{joined:,} users joined and {left:,} left, in {len(tally.changes)} new "
                    f"versions; new users got {sum(tally.caught.values()):,} tweets"),
        ("index versions", versions or "none was used"),
        ("dead letters", f"{tally.total('bad'):,} tweets that cannot be read, with the reason"),
        ("why not?", _explained(tally, places)),
        ("checked", _checked(checked)),
        ("files", f"{_near(places.root)}: interests.index, matches, dead_letters"),
    ]  # fmt: skip


def _explained(tally: Tally, places: Places) -> str:
    """Explain why a new user does not get a tweet with one of two tags."""
    if not tally.changes:
        return "no user has joined"
    tags, key = tally.changes[-1].added[-1]
    told = my.open(places.index).explain(set(tags[:1]), key)
    asked = f"would {user(key)} get a tweet with just {hashtags(tags[:1])}?"
    return f"{asked} {told.splitlines()[0]}"


def _checked(checked: Checked | None) -> str:
    if checked is None:
        return "no: the stream was interrupted"
    if checked.problem is not None:
        return f"DIFFERENT: {checked.problem}"
    return (
        f"{checked.pairs:,} pairs of {checked.tweets:,} tweets in {checked.versions} versions: "
        "the same as an embedded index finds"
    )


def _near(path: Path) -> str:
    """The path relative to the working folder, if it lies below."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _sum_up(rows: list[tuple[str, str]], report: Path, console: Console) -> None:
    table = Table(show_header=False, box=box.SIMPLE_HEAD, pad_edge=False, title="Summary",
                  title_justify="left", title_style="bold")  # fmt: skip
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value, style="bold red" if "DIFFERENT" in value else ""))
    console.print(table)
    console.print(f"report: {report}", highlight=False, markup=False, soft_wrap=True)
