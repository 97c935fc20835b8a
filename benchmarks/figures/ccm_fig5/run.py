"""The steps of a single event of `counting` on a GPU: "there" (input), "kernel", "back" (output), "all".

There is no copy of the input: CCM's input is an argument of the launch. The kernel writes its matches
to the host's memory, so the output step only sorts them and looks up keys. In the variant with memset,
two memsets reset the counters before every launch. The kernel still clears the counters of the last
event, which takes next to no time.
"""

from itertools import pairwise
from statistics import median
from time import perf_counter

from benchmarks.shared import sweeps

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.bench.figures.claims import Claim, verdict

RESETS = {"in the kernel": False, "by memset": True}


def run(figure):
    source = my.workload("predicates", "ccm", figure.size)
    index, _ = sweeps.built(source, "counting", device=figure.device)
    (segment,) = index.segments()
    (table,), settings = segment.tables, segment.settings
    column = settings.engine.encoder.column(
        source.events(figure.settings["events"]), settings.input_options
    )
    events = [segment.encode(column.rows(i, i + 1)) for i in range(column.n_rows)]
    space = settings.algorithm.workspace(table, settings.options)

    def match(event):
        settings.algorithm.match(table, event, space, settings.options)

    with machine.alone():
        if figure.device != "gpu":
            yield {"series": "here", "panel": "counting", "x": "all",
                   "y": 1e6 * median(_seconds(match, events)[len(events) // 2 :])}  # fmt: skip
            return
        for reset, by_memset in RESETS.items():
            for step, took in _steps(match, events, space.one, by_memset).items():
                yield {"series": "here", "panel": f"counting, reset {reset}",
                       "x": step, "y": 1e6 * took}  # fmt: skip


def _seconds(match, events):
    times = []
    for event in events:
        start = perf_counter()
        match(event)
        times.append(perf_counter() - start)
    return times


def _steps(match, events, one, by_memset):
    """The median seconds of each step and of their sum, over events with constraints to check."""
    launch, wait, marks = one._launch, one._wait, []

    def launched(*given):
        if by_memset:
            one._halves.data.memset_async(0, one._halves.nbytes, one._lane.stream)
            one._totals.data.memset_async(0, one._totals.nbytes, one._lane.stream)
        marks.append(perf_counter())
        launch(*given)

    def waited(number):
        n_hits = wait(number)
        marks.append(perf_counter())
        return n_hits

    one._launch, one._wait = launched, waited
    times = []
    try:
        for event in events:
            marks[:] = [perf_counter()]
            match(event)
            marks.append(perf_counter())
            if len(marks) == 4:
                steps = [after - before for before, after in pairwise(marks)]
                times.append([*steps, marks[-1] - marks[0]])
    finally:
        one._launch, one._wait = launch, wait
    warm = times[len(times) // 2 :]
    return dict(zip(("there", "kernel", "back", "all"), map(median, zip(*warm))))


def judge(figure, rows):
    on_gpu = {(row["panel"], row["x"]): row["y"] for row in rows if "(GPU)" in row["panel"]}
    if not on_gpu:
        return "not", "the figure shows steps on a GPU, and no GPU was measured"
    totals = {reset: on_gpu[f"counting (GPU), reset {reset}", "all"] for reset in RESETS}
    (on_cpu,) = [row["y"] for row in rows if row["panel"] == "counting"]
    fastest = totals["in the kernel"]
    kernel = on_gpu["counting (GPU), reset in the kernel", "kernel"]
    slower = totals["by memset"] / fastest
    others = {"there": "6 %", "back": "2 %"}
    shares = ", ".join(
        f"the way {step} {on_gpu['counting (GPU), reset in the kernel', step] / fastest:.0%} "
        f"(paper: about {paper})"
        for step, paper in others.items()
    )
    return verdict(
        Claim(
            f"of {fastest:.1f} µs on {figure.card} the kernel takes {kernel / fastest:.0%} "
            f"(paper: 92 % of 144), {shares}",
            fastest / 2 < kernel <= fastest,
        ),
        Claim(
            f"with memset an event takes {slower:.2f}× as long (paper: about 1.4×)", slower > 1.1
        ),
        besides=f"one thread of the CPU takes {on_cpu:.0f} µs, {on_cpu / fastest:.0f}× as long",
    )
