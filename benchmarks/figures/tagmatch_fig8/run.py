"""Seconds of `consolidate`, by one thread, by size of the database; `add_many` apart. On a GPU, seconds
of the copy of the tables to the card."""

import numpy as np
from benchmarks.shared.steps import build_times, copied, filled, workload

from matchyard.bench.figures.claims import ON_GPU
from matchyard.bench.figures.plots import series_of

_KINDS = {
    "tagmatch consolidate": ("tagmatch", {"max_partition": 200_000}),  # as in the caption
    "tagmatch consolidate, MAX_P 400": ("tagmatch", {"max_partition": 400}),  # best on CPUs
    "rarest consolidate": ("rarest", {}),
}


def run(figure):
    for share in figure.settings["shares"]:
        size = int(share * figure.size)
        source = workload("twitter", size)
        for series, (algorithm, options) in _KINDS.items():
            if figure.device == "gpu":  # the CPU makes the tables; only the copy is timed
                if "," in series:  # the time of the copy does not depend on partitions
                    continue
                index = filled(source, algorithm, options, figure.device)
                name = series.replace(" consolidate", ", copied to the card")
                yield {"series": name, "x": size, "y": copied(index, source).seconds}
                continue
            adding, compiling = build_times(source, algorithm, options)
            yield {"series": series, "x": size, "y": compiling}
        if figure.device == "cpu":
            yield {"series": "add_many (any of them)", "x": size, "y": adding}


def judge(figure, rows):
    slopes = {}
    for name, points in series_of(rows).items():
        x, y = np.log([(point["x"], point["y"]) for point in points]).T
        slopes[name] = float(np.polyfit(x, y, 1)[0])
    slope = slopes["tagmatch consolidate"]
    last = series_of(rows)["tagmatch consolidate"][-1]
    text = (
        f"the time grows with the size to the power of {slope:.2f} (linear is 1; rarest "
        f"{slopes['rarest consolidate']:.2f}), {1e6 * last['y'] / last['x']:.2f} s per million sets "
        f"with all of `consolidate` on one core (paper: 0.25-0.4 s for the partitioning alone)"
    )
    on_gpu = [row for row in rows if row["series"] == f"tagmatch{ON_GPU}, copied to the card"]
    if on_gpu:
        each = 1e6 * on_gpu[-1]["y"] / on_gpu[-1]["x"]
        text += f"; the copy to {figure.card} takes {each:.3f} s per million"
    if 0.8 < slope < 1.25:
        return "reproduced", text
    return ("partly", text) if 0.6 < slope < 1.5 else ("not", text)
