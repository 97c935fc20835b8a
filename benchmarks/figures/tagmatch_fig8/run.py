"""Seconds of `consolidate`, by one thread, while the database grows; `add_many` apart."""

import numpy as np

from matchyard.bench.plots import series_of
from matchyard.bench.steps import build_times, workload

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
            adding, compiling = build_times(source, algorithm, options)
            yield {"series": series, "x": size, "y": compiling}
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
    if 0.8 < slope < 1.25:
        return "reproduced", text
    return ("partly", text) if 0.6 < slope < 1.5 else ("not", text)
