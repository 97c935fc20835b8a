"""Partitions and search space of tagmatch while partitions grow."""

from benchmarks.shared.steps import prepared

from matchyard.bench.figures.plots import series_of


def run(figure):
    chosen = figure.settings
    for name in chosen["workloads"]:
        for most in chosen["max_partition"]:
            options = {"pivot": chosen["pivot"], "max_partition": most}
            index, source = prepared(name, figure.size, "tagmatch", options)
            n_partitions, n_sets = index.search_space(source.events(chosen["n_events"]))
            yield {"series": "partitions", "panel": name, "x": most, "y": n_partitions}
            yield {"series": "candidate sets per event", "panel": name, "x": most, "y": n_sets}


def judge(figure, rows):
    holds, said = [], []
    for name in figure.settings["workloads"]:
        series = series_of(row for row in rows if row["panel"] == name)
        partitions = [row["y"] for row in series["partitions"]]
        sets = [row["y"] for row in series["candidate sets per event"]]
        holds.append(
            partitions == sorted(partitions, reverse=True) and partitions[0] > partitions[-1]
        )
        holds.append(sets == sorted(sets) and sets[0] < sets[-1])
        said.append(
            f"{partitions[0]:,} to {partitions[-1]:,} partitions and {sets[0]:,.0f} to "
            f"{sets[-1]:,.0f} candidate sets per event on {name}"
        )
    text = (
        "as MAX_P grows there are fewer partitions and a larger search space (thesis: the same): "
        if all(holds)
        else "not everywhere do partitions fall and candidates rise with MAX_P: "
    ) + "; ".join(said)
    return ("reproduced" if all(holds) else "partly" if any(holds) else "not"), text
