"""Throughput of match and match_unique while the database grows."""

from benchmarks.shared.steps import prepared, speed

from matchyard.bench.figures.claims import of_gpu
from matchyard.bench.figures.plots import series_of


def run(figure):
    for share in figure.settings["shares"]:
        size = int(share * figure.size)
        for algorithm in figure.settings["algorithms"]:
            index, source = prepared("twitter", size, algorithm, device=figure.device)
            for verb in ("match", "match_unique"):
                result = speed(index, source, figure.threads, verb)
                yield {"series": algorithm, "panel": verb, "x": size, "y": result.events_per_s,
                       "pairs_per_s": result.pairs_per_s}  # fmt: skip


def judge(figure, rows):
    plain = series_of(row for row in rows if row["panel"] == "match")
    falls = [name for name, points in plain.items() if points[-1]["y"] < points[0]["y"]]
    last = {name: points[-1]["y"] for name, points in plain.items()}
    ours, called = of_gpu(figure, last, "tagmatch")
    ratio = ours / last["prefix_tree"]
    text = (
        f"throughput falls as the database grows for {', '.join(falls) or 'none'}; at the full "
        f"size {called} is {ratio:.1f}× prefix_tree (paper: 8×, with GPUs), and rarest, which is "
        f"ours, {last['rarest'] / last['tagmatch']:.1f}× tagmatch"
    )
    if {"tagmatch", "prefix_tree"} <= set(falls) and ratio > 4:
        return "reproduced", text
    return ("partly", text) if ratio > 1 and "tagmatch" in falls else ("not", text)
