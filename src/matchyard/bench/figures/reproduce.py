"""Run a figure of a paper on the CPU or on a GPU, and judge both together.

Algorithms with GPU kernels are measured apart on a GPU: the rows go into NAME.gpu.json, with series
called "NAME (GPU)". The judge and the plot of a figure include these rows if they have the same size
as the CPU's rows. They test the paper's claims about GPUs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.bench.compare.report import short
from matchyard.bench.figures import plots
from matchyard.bench.figures.claims import ON_GPU
from matchyard.bench.figures.figures import VERDICTS, Figure, draw, load, show, write_overview
from matchyard.bench.figures.plots import Row
from matchyard.errors import UsageError
from matchyard.gpu import devices

_OTHERS = re.compile(r" \(measured while .*\)$")
Report = dict[str, Any]


def run_figure(
    figures: Mapping[str, Figure],
    name: str,
    size: int | None,
    threads: int,
    output: Path | None,
    as_json: bool,
    progress: Callable[[str], None],
) -> str:
    """Run one figure, print it with the published numbers, and write results and plot."""
    figure = _chosen(figures, name, size, threads)
    others = machine.Others()
    report = _report(figure, _rows(figure, progress))
    used = others.cores()
    remark = f" (measured while others used {used:.1f} of {machine.cores()} cores)"
    return _finish(figures, figure, report, remark if used > 0.2 else "", output, as_json)


def redraw(figures: Mapping[str, Figure], name: str, output: Path | None, as_json: bool) -> str:
    """Judge and draw a figure again, from its recorded results."""
    figure = _find(figures, name)
    path = (output or figure.folder) / f"{name}.json"
    if not path.exists():
        raise UsageError(f"no results in {path}: run `matchyard reproduce {name}` first")
    report = json.loads(path.read_text(encoding="utf-8"))
    figure = figure._replace(threads=report["threads"], size=report["size"])
    remark = _OTHERS.search(report["reason"])
    return _finish(figures, figure, report, remark[0] if remark else "", output, as_json)


def run_on_gpu(
    figures: Mapping[str, Figure],
    name: str,
    size: int | None,
    threads: int,
    output: Path | None,
    as_json: bool,
    progress: Callable[[str], None],
) -> None:
    """Run the algorithms of a figure that have GPU kernels, print and write the results."""
    figure, start = _chosen(figures, name, size, threads), time.perf_counter()
    names = gpu_algorithms(figure)
    if not names:
        raise UsageError(
            f"no algorithm of {name} runs on a GPU; for other figures: matchyard reproduce all"
        )
    card = devices.card_state().name
    figure = figure._replace(device="gpu", settings=figure.settings | {"algorithms": names})
    rows = [_as_of_gpu(row, names) for row in _rows(figure, progress)]
    report = _report(figure, rows) | {"card": card, "seconds": time.perf_counter() - start}
    _write(report, (output or figure.folder) / f"{name}.gpu.json")
    if as_json:
        print(json.dumps(report))
    else:
        show(figure, rows)


def gpu_algorithms(figure: Figure) -> list[str]:
    """The algorithms that run on a GPU, of the figure's list or else of the engine."""
    if not figure.gpu_engine:
        return []
    known = my.algorithms(figure.gpu_engine, "gpu")
    return [name for name in figure.settings.get("algorithms", known) if name in known]


def _find(figures: Mapping[str, Figure], name: str) -> Figure:
    if name not in figures:
        raise UsageError(f"no figure {name!r}; expected one of: {', '.join(figures)}")
    return figures[name]


def _chosen(figures: Mapping[str, Figure], name: str, size: int | None, threads: int) -> Figure:
    figure = _find(figures, name)
    if figure.settings.get("single_thread"):  # as the paper had
        threads = 1
    return figure._replace(threads=threads, size=figure.size if size is None else size)


def _rows(figure: Figure, progress: Callable[[str], None]) -> list[Row]:
    rows = []
    for row in load(figure).run(figure):
        rows.append(row)
        place = plots.place_name(row["x"])
        progress(f"{figure.name}: {row['series']}, {figure.x} {place}: {short(row['y'])}")
    return rows


def _as_of_gpu(row: Row, names: list[str]) -> Row:
    """Mark the name of the algorithm in a row, in any field, as that of a GPU.

    >>> _as_of_gpu({"series": "stacks / yfilter", "x": 1, "y": 2}, ["stacks"])
    {'series': 'stacks (GPU) / yfilter', 'x': 1, 'y': 2}
    """
    begins = re.compile(rf"({'|'.join(names)})\b")
    for field in ("series", "x", "panel"):
        if isinstance(row.get(field), str) and begins.match(row[field]):
            return row | {field: begins.sub(rf"\1{ON_GPU}", row[field], count=1)}
    return row


def _report(figure: Figure, rows: list[Row]) -> Report:
    return {"figure": figure.name, "size": figure.size, "threads": figure.threads, "rows": rows,
            "machine": machine.describe()}  # fmt: skip


def _write(report: Report, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _finish(
    figures: Mapping[str, Figure],
    figure: Figure,
    report: Report,
    remark: str,
    output: Path | None,
    as_json: bool,
) -> str:
    """Judge and draw the results of the CPU and, if there are any, of the GPU."""
    folder = output or figure.folder
    on_gpu = _of_same_size(folder / f"{figure.name}.gpu.json", figure)
    card, fed = card_of(on_gpu, report["threads"])
    figure = figure._replace(cores=report["machine"]["cores"], card=card, fed=fed)
    rows = [*report["rows"], *on_gpu.get("rows", [])]
    code = load(figure)
    verdict, reason = code.judge(figure, rows)
    if verdict not in VERDICTS:
        raise UsageError(f"{figure.folder}/run.py judges {verdict!r}; expected one of {VERDICTS}")
    report |= {"verdict": verdict, "reason": reason + remark}
    _write(report, folder / f"{figure.name}.json")
    draw(figure, rows, verdict, folder / f"{figure.name}.png")
    if hasattr(code, "illustrate"):
        code.illustrate(figure, folder)
    if output is None:
        write_overview(figures)
    if as_json:
        print(json.dumps(report))
    else:
        show(figure, rows, verdict, report["reason"])
    return str(verdict)


def card_of(on_gpu: Report, threads: int) -> tuple[str, str]:
    """The GPU of a report, and its number of threads if that differs from the CPU's.

    >>> card_of({"card": "a card", "threads": 16}, 2), card_of({}, 2)
    (('a card', ' with 16 threads'), ('', ''))
    """
    if not on_gpu or on_gpu["threads"] == threads:
        return on_gpu.get("card", ""), ""
    return on_gpu["card"], f" with {on_gpu['threads']} threads"


def _of_same_size(path: Path, figure: Figure) -> Report:
    """The report of a GPU if it has the same number of subscriptions, or else an empty one."""
    report: Report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return report if report.get("size") == figure.size else {}
