"""Throughput of tagmatch while partitions grow."""

import statistics
from functools import partial

from benchmarks.shared.steps import best_of_rounds, prepared, speed

from matchyard.bench.figures.claims import ON_GPU
from matchyard.bench.figures.plots import series_of

_BEST_SHARE = 200_000 / 212_000_000  # the paper's best MAX_P as a share of its database


def run(figure):
    jobs = {}
    for most in figure.settings["max_partition"]:
        options = {"max_partition": most}
        index, source = prepared("twitter", figure.size, "tagmatch", options, device=figure.device)
        for verb in ("match", "match_unique"):
            jobs[verb, most] = partial(speed, index, source, figure.threads, verb, 1)
    for (verb, most), result in best_of_rounds(jobs).items():
        yield {"series": f"tagmatch {verb}", "x": most, "y": result.events_per_s,
               "candidates_per_event": result.candidates / result.events}  # fmt: skip


def judge(figure, rows):
    series = series_of(rows)
    points = series["tagmatch match"]
    best = max(points, key=lambda point: point["y"])
    first, last = points[0]["y"] / best["y"], points[-1]["y"] / best["y"]
    apart = statistics.median(
        abs(1 - b["y"] / a["y"]) for a, b in zip(points, series["tagmatch match_unique"])
    )
    share = best["x"] / figure.size
    on_gpu = series.get(f"tagmatch{ON_GPU} match", [])
    text = (
        f"the best MAX_P is {best['x']:,}, {share:.2%} of the database (paper: 200,000, "
        f"{_BEST_SHARE:.2%}); the smallest reaches {first:.0%} of the best and the largest "
        f"{last:.0%} (paper: stable beyond the best); match and match_unique differ by {apart:.0%} "
        f"in the median"
    )
    if on_gpu:
        top = max(on_gpu, key=lambda point: point["y"])
        text += (
            f"; on {figure.card}{figure.fed} the best is {top['x']:,}, {top['x'] / figure.size:.2%}, and the "
            f"largest reaches {on_gpu[-1]['y'] / top['y']:.0%} of it"
        )
    holds = [first < 0.95, last > 0.8, apart < 0.25]  # trade-off, stable beyond, verbs alike
    if all(holds):
        return "reproduced", text
    return ("partly", text) if holds[0] and holds[2] else ("not", text)
