"""Throughput of tagmatch with the other pivot, beside the best line of Figure 3.11."""

from functools import partial

from matchyard.bench.plots import series_of
from matchyard.bench.steps import best_of_rounds, prepared, speed

_NOISE = 1.05  # ratios below it say nothing, even as the best of several rounds


def run(figure):
    chosen = figure.settings
    both = figure.threads  # the number of threads at which the two pivots are compared
    lines = [
        (chosen["pivot"], sorted({*chosen["threads"], both})),
        (chosen["compare"], [both]),
    ]
    jobs = {}
    for most in chosen["max_partition"]:
        for pivot, counts in lines:
            options = {"pivot": pivot, "max_partition": most}
            index, source = prepared("twitter", figure.size, "tagmatch", options)
            for threads in counts:
                label = f"{pivot}, {threads} thread{'s' * (threads > 1)}"
                jobs[label, most] = partial(speed, index, source, threads, "match", 1)
    for (label, most), found in best_of_rounds(jobs).items():
        yield {"series": label, "x": most, "y": found.events_per_s,
               "beside": label.startswith(chosen["compare"])}  # fmt: skip


def judge(figure, rows):
    found = {name: [row["y"] for row in points] for name, points in series_of(rows).items()}
    plural = "s" * (figure.threads > 1)
    ours, other = (
        found[f"{figure.settings[which]}, {figure.threads} thread{plural}"]
        for which in ("pivot", "compare")
    )
    ratio, kept, kept_other = max(ours) / max(other), ours[-1] / max(ours), other[-1] / max(other)
    text = (
        f"the best of the most frequent bit is {ratio:.2f}× that of the most balanced one (thesis: "
        f"1.06×), and its largest MAX_P keeps {kept:.0%} of the best against {kept_other:.0%} "
        f"(thesis: less susceptible to MAX_P)"
    )
    holds = [ratio > _NOISE, kept > _NOISE * kept_other]
    if all(holds):
        return "reproduced", text
    if any(holds):
        return "partly", text
    return "not", f"{text}; differences below {_NOISE - 1:.0%} are noise here"
