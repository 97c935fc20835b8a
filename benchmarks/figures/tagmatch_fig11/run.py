"""Speedup of a database by shards: each shard has a thread and a database, and gets all events."""

from functools import partial

from benchmarks.shared.steps import best_of_rounds, filled, speed, workload

from matchyard.bench.compare import machine
from matchyard.bench.figures.plots import series_of
from matchyard.bench.rivals.subsets import RIVALS, Shards, race


def run(figure):
    chosen = figure.settings
    source = workload(chosen["workload"], figure.size, chosen["extra_tags"], chosen["tags_each"])
    index = filled(source)
    ours = speed(index, source, figure.threads).events_per_s
    stored = source.subscriptions(0, figure.size)
    for name in chosen["rivals"]:
        rivals = {n: Shards(RIVALS[name], *stored, n) for n in chosen["shards"]}
        best = best_of_rounds(
            {
                n_shards: partial(race, rival, index, source, chosen["pass_s"], passes=1)
                for n_shards, rival in rivals.items()
            }
        )
        alone = best[chosen["shards"][0]].events_per_s
        for n_shards, timed in best.items():
            rivals[n_shards].close()
            yield {"series": name, "x": n_shards, "y": timed.events_per_s / alone,
                   "events": timed.events, "events_per_s": timed.events_per_s,
                   "rarest_events_per_s": ours}  # fmt: skip


def judge(figure, rows):
    cores = machine.cores()
    best = {
        name: max(points, key=lambda point: point["y"]) for name, points in series_of(rows).items()
    }
    first = series_of(rows)[figure.settings["rivals"][0]]
    one = first[0]
    needed = one["rarest_events_per_s"] / one["events_per_s"]
    text = (
        f"on {cores} cores sharding brings "
        + ", ".join(
            f"{name} {point['y']:.1f}× with {point['x']} shards" for name, point in best.items()
        )
        + f" (paper: linear up to 8, 3× with 24, on 24 cores); rarest is {needed:,.0f}× one shard of "
        f"the former, so that it would take {needed:,.0f} perfect shards to catch up"
    )
    gains = [point["y"] for point in best.values()]
    usable = min(cores, figure.settings["shards"][-1])
    if max(gains) > 1.2 * usable:  # then the baseline was too slow
        return "partly", f"{text}; more than {usable} cores can give, so the baseline is in doubt"
    if min(gains) > 0.7 * usable and needed > 10 * cores:
        return "reproduced", text
    return ("partly", text) if max(gains) > 1.2 and needed > 1 else ("not", text)
