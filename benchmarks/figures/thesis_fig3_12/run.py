"""Throughput of tagmatch with the other pivot, beside the best line of Figure 3.11."""

from functools import partial

from benchmarks.shared.steps import best_of_rounds, prepared, speed

from matchyard.bench.figures.plots import series_of

_NOISE = 1.05  # smaller ratios are noise, even as the best of several rounds


def run(figure):
    chosen = figure.settings
    on_gpu = figure.device == "gpu"
    both = figure.threads  # the number of threads at which the two pivots are compared
    lines = [
        (chosen["pivot"], [both] if on_gpu else sorted({*chosen["threads"], both})),
        (chosen["compare"], [both]),
    ]
    jobs = {}
    for name, verb in chosen["workloads"].items():
        for most in chosen["max_partition"]:
            for pivot, counts in lines:
                options = {"pivot": pivot, "max_partition": most}
                index, source = prepared(
                    name, figure.size, "tagmatch", options, device=figure.device
                )
                for threads in counts:
                    label = f"{'tagmatch, ' * on_gpu}{pivot}, {threads} thread{'s' * (threads > 1)}"
                    jobs[name, label, most] = partial(speed, index, source, threads, verb, 1)
    for (name, label, most), result in best_of_rounds(jobs).items():
        yield {"series": label, "panel": name, "x": most, "y": result.events_per_s,
               "beside": chosen["compare"] in label}  # fmt: skip


def judge(figure, rows):
    main = compared(figure, rows, "twitter", "")
    ratio, kept, kept_other = main
    text = (
        f"the best of the most frequent bit is {ratio:.2f}× that of the most balanced one (thesis: "
        f"1.06×), and its largest MAX_P keeps {kept:.0%} of the best against {kept_other:.0%} "
        f"(thesis: less susceptible to MAX_P)"
    )
    for panel, words in (("rib", "the RIB of AS3257"), ("twitter", "twitter")):
        for mark in ("", "GPU"):
            if (panel, mark) == ("twitter", "") or not (
                other := compared(figure, rows, panel, mark)
            ):
                continue
            where = f" on {figure.card}" if mark else ""
            text += f"; with {words}{where} it is {other[0]:.2f}×, {other[1]:.0%} against {other[2]:.0%}"
    holds = [ratio > _NOISE, kept > _NOISE * kept_other]
    if all(holds):
        return "reproduced", text
    if any(holds):
        return "partly", text
    return "not", f"{text}; differences below {_NOISE - 1:.0%} are noise here"


def compared(figure, rows, panel, mark):
    """The ratio of the best of both pivots, and the share that the largest MAX_P keeps of each, with most threads."""
    some = [r for r in rows if r["panel"] == panel and ("GPU" in r["series"]) == bool(mark)]
    if not some:
        return ()
    lines = {name: [row["y"] for row in points] for name, points in series_of(some).items()}
    ours, other = (
        next(
            ys
            for name, ys in reversed(lines.items())
            if figure.settings[which] in name and (mark or f", {figure.threads} thread" in name)
        )
        for which in ("pivot", "compare")
    )
    return max(ours) / max(other), ours[-1] / max(ours), other[-1] / max(other)
