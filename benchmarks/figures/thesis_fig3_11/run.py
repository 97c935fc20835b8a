"""Throughput of tagmatch by size of the partitions and number of threads."""

from functools import partial

from benchmarks.shared.steps import best_of_rounds, prepared, speed


def run(figure):
    chosen = figure.settings
    on_gpu = figure.device == "gpu"
    counts = sorted({1, 2, figure.threads}) if on_gpu else chosen["threads"]
    jobs = {}
    for name, verb in chosen["workloads"].items():
        for most in chosen["max_partition"]:
            options = {"pivot": chosen["pivot"], "max_partition": most}
            index, source = prepared(name, figure.size, "tagmatch", options, device=figure.device)
            for threads in counts:
                jobs[name, threads, most] = partial(speed, index, source, threads, verb, 1)
    for (name, threads, most), result in best_of_rounds(jobs).items():
        label = f"{'tagmatch, ' * on_gpu}{threads} thread{'s' * (threads > 1)}"
        yield {"series": label, "panel": name, "x": most, "y": result.events_per_s,
               "threads": threads}  # fmt: skip


def judge(figure, rows):
    on_cpu = [row for row in rows if "GPU" not in row["series"]]
    best, falls, rises, gain = shape_of(
        figure, [row for row in on_cpu if row["panel"] == "twitter"]
    )
    text = (
        f"the best is {best['y']:,.0f} events/s with {best['threads']} threads and MAX_P "
        f"{best['x']:,}, {best['x'] / figure.size:.2%} of the database (thesis: 6 threads and "
        f"200,000, {200_000 / 63e6:.2%}); the largest MAX_P reaches {falls:.0%} of it (thesis: falls "
        f"beyond the best), and threads bring {gain:.1f}×"
    )
    text += "".join(others_of(figure, rows))
    holds = [falls < 0.95, rises, gain > 1.3]
    if all(holds):  # falls after the best value, rises before it, gains from threads
        return "reproduced", text
    return ("partly", text) if sum(holds) == 2 else ("not", text)


def shape_of(figure, rows):
    """The best row, the share that the largest MAX_P keeps, whether the smallest is slower, and the gain by threads."""
    best = max(rows, key=lambda row: row["y"])
    same = [row["y"] for row in rows if row["threads"] == best["threads"]]
    alone = max(row["y"] for row in rows if row["threads"] == min(row["threads"] for row in rows))
    return best, same[-1] / best["y"], same[0] < 0.98 * best["y"], best["y"] / alone


def others_of(figure, rows):
    """The results for the RIB of a router and for the GPU, in words."""
    for panel, words in (("rib", "the RIB of AS3257"), ("twitter", "twitter")):
        for is_gpu in (False, True):
            some = [r for r in rows if r["panel"] == panel and ("GPU" in r["series"]) == is_gpu]
            if not some or (panel == "twitter" and not is_gpu):
                continue
            best, falls, _, _ = shape_of(figure, some)
            where = f" on {figure.card}" if is_gpu else ""
            yield (
                f"; with {words}{where} the best is {best['y']:,.0f} events/s with {best['threads']} "
                f"threads and MAX_P {best['x']:,}, and the largest reaches {falls:.0%} of it"
            )
