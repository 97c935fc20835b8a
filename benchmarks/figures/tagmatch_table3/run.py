"""Throughput of match and match_unique at two sizes."""

from functools import partial

from benchmarks.shared.steps import best_of_rounds, prepared, speed

from matchyard.bench.figures.claims import Claim, of_gpu, ratio, verdict, ys


def run(figure):
    for percent in figure.settings["percent"]:
        size, jobs = figure.size * percent // 100, {}
        for algorithm in figure.settings["algorithms"]:
            index, source = prepared("twitter", size, algorithm, device=figure.device)
            for verb in ("match", "match_unique"):
                jobs[algorithm, verb] = partial(speed, index, source, figure.threads, verb, 1)
        for (algorithm, verb), result in best_of_rounds(jobs).items():
            yield {"series": algorithm, "panel": verb, "x": percent, "y": result.events_per_s,
                   "subscriptions": size, "candidates_per_event": result.candidates / result.events}  # fmt: skip


def judge(figure, rows):
    plain, unique = (
        ys([row for row in rows if row["panel"] == verb]) for verb in ("match", "match_unique")
    )
    both = {name: values + unique[name] for name, values in plain.items()}
    ours, called = of_gpu(figure, both, "tagmatch")
    tree = both["prefix_tree"]
    ahead = [fast / slow for fast, slow in zip(ours, tree)]
    kept = {name: values[1] / values[0] for name, values in plain.items()}
    left, _ = of_gpu(figure, kept, "tagmatch")
    same, _ = of_gpu(
        figure, {name: ratio(unique[name], values) for name, values in plain.items()}, "tagmatch"
    )
    n_ahead = sum(times > 1 for times in ahead)
    return verdict(
        Claim(
            f"{called} is ahead of prefix_tree in {n_ahead} of {len(ahead)} cells (paper: in all)",
            n_ahead == len(ahead),
        ),
        Claim(
            f"it is {min(ahead):.1f}× to {max(ahead):.1f}× as fast (paper: 9.6× to 12.7×, with GPUs)",
            min(ahead) > 5,
        ),
        Claim(
            f"with twice the database {left:.2f} of its throughput and {kept['prefix_tree']:.2f} of "
            "that of prefix_tree are left (paper: 0.54 and 0.66)",
            max(left, kept["prefix_tree"]) < 0.95,  # more is noise
        ),
        Claim(f"match_unique reaches {same:.2f} of match (paper: 0.92 to 0.93)", 0.8 < same < 1.05),
        besides=f"rarest, which is ours, is {ratio(both['rarest'], both['tagmatch']):.1f}× tagmatch "
        "without a GPU; the ICN matcher was not run (paper: 1.2× to 1.3× the prefix tree)",
    )
