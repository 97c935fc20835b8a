"""Speedup of match and match_unique by threads, beyond the number of cores."""

from functools import partial

from benchmarks.shared.steps import best_of_rounds, prepared, speed

from matchyard.bench.figures.claims import ON_GPU
from matchyard.bench.figures.plots import series_of


def run(figure):
    for algorithm in figure.settings["algorithms"]:
        index, source = prepared("twitter", figure.size, algorithm, device=figure.device)
        for verb in ("match", "match_unique"):
            best = best_of_rounds(
                {
                    threads: partial(speed, index, source, threads, verb, 1)
                    for threads in figure.settings["threads"]
                }
            )
            alone = best[figure.settings["threads"][0]].events_per_s
            for threads, result in best.items():
                yield {"series": algorithm, "panel": verb, "x": threads,
                       "y": result.events_per_s / alone,
                       "events_per_s": result.events_per_s}  # fmt: skip


def judge(figure, rows):
    cores = min(figure.cores, figure.settings["threads"][-1])
    reached = {
        name: [point["y"] for point in points if point["x"] == cores]
        for name, points in series_of(rows).items()
        if not name.endswith(ON_GPU)
    }
    beyond = [row["y"] for row in rows if row["x"] > cores and row["series"] == "tagmatch"]
    gain = max(beyond, default=0) / max(reached["tagmatch"])
    worst = min(reached["tagmatch"])
    text = (
        f"with {cores} threads on {cores} cores "
        + ", ".join(f"{name} is {min(ys):.2f}-{max(ys):.2f}×" for name, ys in reached.items())
        + " as fast as with one (match and match_unique; paper: 1.8× for twice the threads)"
        + _on_gpu(figure, rows)
        + (f"; more threads than cores change tagmatch by {gain:.2f}×" if beyond else "")
    )
    if cores == 1:
        return "not", "one core: threads cannot be judged"
    linear = 1 + 0.7 * (cores - 1)  # the paper's 1.8 at twice the threads is 1 + 0.8
    if worst >= linear and gain < 1.15:
        return "reproduced", text
    return ("partly", text) if worst > 1.25 else ("not", text)


def _on_gpu(figure, rows):
    """The speedup by threads that share a GPU, in words."""
    series = series_of(row for row in rows if row["series"].endswith(ON_GPU))
    best = {
        name.removesuffix(ON_GPU): max(points, key=lambda point: point["y"])
        for name, points in series.items()
    }
    said = ", ".join(f"{top['y']:.2f}× for {name} with {top['x']}" for name, top in best.items())
    return f"; on {figure.card} threads bring at most {said}" if best else ""
