"""Throughput of tagmatch with and without common prefixes, each with and without the key look-up."""

from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from benchmarks.shared.steps import best_of_rounds, prepared

from matchyard.bench.compare import machine
from matchyard.bench.figures.claims import Claim, of_gpu, verdict, ys

_NOISE = 1.05  # smaller ratios are noise


class Speed(NamedTuple):
    """The speed of a pass."""

    events_per_s: float
    candidates: float  # per event


def run(figure):
    chosen = figure.settings
    for most in chosen["max_partition"]:
        for percent in chosen["percent"]:
            size, options = figure.size * percent // 100, {"max_partition": most, "exact": False}
            index, source = prepared("twitter", size, "tagmatch", options, device=figure.device)
            for name, result in best_of_rounds(_jobs(figure, index, source)).items():
                yield {"series": name, "panel": f"MAX_P {most:,}", "x": percent,
                       "y": result.events_per_s, "subscriptions": size,
                       "candidates_per_event": result.candidates}  # fmt: skip


def _jobs(figure, index, source):
    """A pass of each kernel, with all stages and, on the CPU, without the last one."""
    (segment,) = index.segments()
    (table,), settings = segment.tables, segment.settings
    events = source.events(figure.settings["batches"] * segment.launch)
    column = settings.engine.encoder.column(events, settings.input_options)
    columns = [
        column.rows(first, first + segment.launch)
        for first in range(0, column.n_rows, segment.launch)
    ]
    stages = {"": settings.algorithm.match}
    if figure.device == "cpu":
        stages["no look-up"] = settings.algorithm.find
    jobs = {}
    for kernel, its in (("", table), ("simple kernel", without_prefixes(table))):
        space = settings.algorithm.workspace(its, settings.options)
        for said, stage in stages.items():
            name = ", ".join(filter(None, (kernel, said)))
            jobs[f"tagmatch {name}".strip()] = partial(
                _timed, segment, columns, partial(_ask, stage, its, space, settings.options)
            )
    return jobs


def without_prefixes(table):
    """The same table for the simple kernel: every event has an empty prefix."""
    none = np.zeros_like(table.prefixes)
    none.flags.writeable = False  # like all arrays of tables: the same compiled kernels fit
    return table._replace(prefixes=none)


def _ask(stage, table, space, options, batch):
    return stage(table, batch, space, options)[2]  # candidates, whatever the stage


def _timed(segment, columns, ask):
    n_events = sum(column.n_rows for column in columns)
    with machine.alone():
        start = perf_counter()
        candidates = sum(ask(segment.encode(column)) for column in columns)
        seconds = perf_counter() - start
    return Speed(n_events / seconds, candidates / n_events)


def judge(figure, rows):
    series = {
        most: ys([row for row in rows if row["panel"] == f"MAX_P {most:,}"])
        for most in figure.settings["max_partition"]
    }
    own, judged = series
    theirs = series[judged]
    gains, called = _gains(figure, theirs)
    plain = _ratios(theirs["tagmatch no look-up"], theirs["tagmatch"])
    simple = _ratios(theirs["tagmatch simple kernel, no look-up"], theirs["tagmatch simple kernel"])
    bare = _ratios(theirs["tagmatch no look-up"], theirs["tagmatch simple kernel, no look-up"])
    return verdict(
        Claim(
            f"with MAX_P {judged:,} pre-filtering makes {called} {_said(gains)} as fast (thesis: "
            "2.52×, 2.19×, 1.44×, on GPUs)",
            min(gains) > _NOISE,
        ),
        Claim(
            f"from the smallest database to the largest the gain changes by "
            f"{gains[-1] / gains[0]:.2f}× (thesis: 0.57×, it shrinks)",
            gains[-1] * _NOISE < gains[0],
        ),
        Claim(
            f"without the look-up the simple kernel is {_said(simple)} as fast (thesis: 1.00×, "
            "1.01×, 1.04×)",
            max(simple) < 1.1,
        ),
        Claim(
            f"without the look-up the kernel that pre-filters is {_said(plain)} as fast (thesis: "
            "1.28×, 1.58×, 2.15×, since the look-up is the bottleneck)",
            min(plain) > 1.2,
        ),
        Claim(
            f"without the look-up the gain is {_said(bare)} (thesis: 3.22×, 3.43×, 2.97×)",
            min(bare) > 2,
        ),
        besides=f"with MAX_P {own:,}, our default, the gain is "
        f"{_said(_gains(figure, series[own])[0])}",
    )


def _gains(figure, series):
    """The speedups of the kernel with prefixes, and its label."""
    ours, called = of_gpu(figure, series, "tagmatch")
    return _ratios(ours, of_gpu(figure, series, "tagmatch simple kernel")[0]), called


def _ratios(fast, slow):
    return [a / b for a, b in zip(fast, slow)]


def _said(ratios):
    return ", ".join(f"{times:.2f}×" for times in ratios)
