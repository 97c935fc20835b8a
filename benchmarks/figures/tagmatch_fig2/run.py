"""Input throughput of match_unique while events grow."""

from benchmarks.shared.steps import by_extra_tags

from matchyard.bench.figures.claims import of_gpu
from matchyard.bench.figures.plots import series_of


def run(figure):
    chosen = figure.settings
    results = by_extra_tags(
        chosen["workload"], figure.size, chosen["algorithms"], chosen["extra_tags"], figure.threads,
        figure.device,
    )  # fmt: skip
    for (algorithm, extra), result in results.items():
        yield {"series": algorithm, "x": extra, "y": result.events_per_s,
               "pairs_per_s": result.pairs_per_s}  # fmt: skip


def judge(figure, rows):
    series = series_of(rows)
    falls = {name: points[0]["y"] / points[-1]["y"] for name, points in series.items()}
    ours, called = of_gpu(figure, series, "tagmatch")
    faster = [a["y"] / b["y"] for a, b in zip(ours, series["prefix_tree"])]
    text = (
        "from fewest to most extra tags throughput falls "
        + ", ".join(f"{fall:.1f}× for {name}" for name, fall in falls.items())
        + f"; {called} is {min(faster):.1f}-{max(faster):.1f}× prefix_tree (paper: almost 10×)"
    )
    if falls["tagmatch"] > 2 and falls["prefix_tree"] > 2 and min(faster) > 5:
        return "reproduced", text
    return ("partly", text) if falls["tagmatch"] > 1.5 and min(faster) > 1 else ("not", text)
