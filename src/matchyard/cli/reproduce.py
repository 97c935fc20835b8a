"""`matchyard reproduce`: figures of the papers, measured again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from matchyard.cli.arguments import AsJson, Threads, read_count
from matchyard.cli.terminal import clear, note, progress, say
from matchyard.errors import UsageError


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of figures, e.g. tagmatch-fig4, or all; without a name, list the figures."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="How many subscriptions, instead of the figure's own number."),
    ] = None,
    threads: Threads = 2,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for results and plots; by default the figure's own."
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(help="The device to measure: cpu, or gpu, which adds series to the plots."),
    ] = "cpu",
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Measure nothing: judge and draw recorded results.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run figures and tables of the papers again, and compare the published numbers (in a checkout)."""
    from matchyard.bench.figures import reproduce as runs
    from matchyard.bench.figures.figures import find_figures

    figures = find_figures()
    if not names:
        _list({name: figure.title for name, figure in figures.items()}, as_json)
        return
    if device not in ("cpu", "gpu") or (redraw and device != "cpu"):
        raise UsageError(
            "a figure runs on device cpu or gpu; --redraw runs nothing and takes only cpu"
        )
    given: dict[str, Any] = {"output": output, "as_json": as_json}
    if not redraw:
        given |= {
            "size": read_count(size) if size else None,
            "threads": threads,
            "progress": progress,
        }
    measure = runs.run_on_gpu if device == "gpu" else runs.run_figure
    act: Callable[..., Any] = runs.redraw if redraw else measure
    chosen = names
    if names == ["all"]:
        chosen = [name for name in figures if device == "cpu" or runs.gpu_algorithms(figures[name])]
    _run_all(partial(act, figures, **given), chosen)


def _list(titles: dict[str, str], as_json: bool) -> None:
    if as_json:
        print(json.dumps(titles))
        return
    for name, title in titles.items():
        say(f"{name:22} {title}")


def _run_all(run: Callable[[str], Any], names: Sequence[str]) -> None:
    """Run the figures one after the other, and go on after a failure."""
    failed = []
    for name in names:
        start = time.perf_counter()
        try:
            run(name)
        except Exception as error:
            if len(names) == 1:
                raise
            note(f"{name} failed: {type(error).__name__}: {error}")
            failed.append(name)
        else:
            clear()
            note(f"{name} took {time.perf_counter() - start:.1f} s")
    if failed:
        note(f"{len(failed)} of {len(names)} figures failed: {', '.join(failed)}")
        raise typer.Exit(1)
