"""Output throughput of match_unique while events grow."""

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
        yield {"series": algorithm, "x": extra, "y": result.pairs_per_s,
               "events_per_s": result.events_per_s}  # fmt: skip


def judge(figure, rows):
    series = series_of(rows)
    grows = {name: points[-1]["y"] / points[0]["y"] for name, points in series.items()}
    ours, called = of_gpu(figure, series, "tagmatch")
    faster = [a["y"] / b["y"] for a, b in zip(ours, series["prefix_tree"])]
    held = series["tagmatch"][-1]["events_per_s"] / series["tagmatch"][0]["events_per_s"]
    text = (
        "from fewest to most extra tags the output changes by "
        + ", ".join(f"{grow:.2f}× for {name}" for name, grow in grows.items())
        + f" (paper: increases significantly), while tagmatch keeps {held:.2f} of its input; "
        f"{called} is {min(faster):.1f}-{max(faster):.1f}× prefix_tree (paper: almost 10×)"
    )
    if grows["tagmatch"] > 1.3 and grows["prefix_tree"] > 1.3 and min(faster) > 5:
        return "reproduced", text
    stays = grows["tagmatch"] > 0.9  # no growth, but no fall with the input either
    return ("partly", text) if stays and min(faster) > 1 else ("not", text)
