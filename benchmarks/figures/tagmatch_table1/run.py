"""Throughput of four algorithms at three sizes."""

from benchmarks.shared.steps import prepared, speed

from matchyard.bench.figures.claims import of_gpu
from matchyard.bench.figures.plots import series_of


def run(figure):
    for share in figure.settings["shares"]:
        size = int(share * figure.size)
        for algorithm in figure.settings["algorithms"]:
            made = prepared("twitter", size, algorithm, device=figure.device)
            result = speed(*made, figure.threads)
            yield {"series": algorithm, "x": size, "y": result.events_per_s,
                   "candidates_per_event": result.candidates / result.events}  # fmt: skip


def judge(figure, rows):
    last = {name: points[-1]["y"] for name, points in series_of(rows).items()}
    plain, plain_called = of_gpu(figure, last, "scan")
    ours, called = of_gpu(figure, last, "tagmatch")
    tree, ratio = last["prefix_tree"] / plain, ours / last["prefix_tree"]
    without = last["tagmatch"] / last["prefix_tree"]
    text = (
        f"at the full size prefix_tree is {tree:.2g}× {plain_called} (paper: 3.6× a batched scan on a "
        f"GPU) and {called} {ratio:.1f}× prefix_tree (paper: 8.2× with GPUs); without a GPU tagmatch "
        f"is {without:.1f}× prefix_tree (paper: 0.16×; here vector instructions stand in for the "
        f"GPU); rarest is {last['rarest'] / last['tagmatch']:.1f}× tagmatch"
    )
    if tree > 1 and ratio > 5:
        return "reproduced", text
    return ("partly", text) if tree > 1 and ratio > 1 else ("not", text)
