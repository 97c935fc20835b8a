"""Throughput of tagmatch by size of the partitions and number of threads."""

from functools import partial

from matchyard.bench.steps import best_of_rounds, prepared, speed


def run(figure):
    chosen = figure.settings
    jobs = {}
    for most in chosen["max_partition"]:
        options = {"pivot": chosen["pivot"], "max_partition": most}
        index, source = prepared("twitter", figure.size, "tagmatch", options)
        for threads in chosen["threads"]:
            jobs[threads, most] = partial(speed, index, source, threads, "match", 1)
    for (threads, most), found in best_of_rounds(jobs).items():
        label = f"{threads} thread{'s' * (threads > 1)}"
        yield {"series": label, "x": most, "y": found.events_per_s, "threads": threads}


def judge(figure, rows):
    best = max(rows, key=lambda row: row["y"])
    same = [row["y"] for row in rows if row["threads"] == best["threads"]]
    alone = max(row["y"] for row in rows if row["threads"] == figure.settings["threads"][0])
    falls = same[-1] / best["y"]
    text = (
        f"the best is {best['y']:,.0f} events/s with {best['threads']} threads and MAX_P "
        f"{best['x']:,}, {best['x'] / figure.size:.2%} of the database (thesis: 6 threads and "
        f"200,000, {200_000 / 63e6:.2%}); the largest MAX_P reaches {falls:.0%} of it (thesis: falls "
        f"beyond the best), and threads bring {best['y'] / alone:.1f}×"
    )
    holds = [falls < 0.95, same[0] < 0.98 * best["y"], best["y"] > 1.3 * alone]
    if all(holds):  # falls beyond the best, rises before it, gains from threads
        return "reproduced", text
    return ("partly", text) if sum(holds) == 2 else ("not", text)
