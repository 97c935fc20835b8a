"""Partitions and search space of tagmatch with the other pivot, beside those of Figure 3.9."""

from benchmarks.shared.steps import prepared

from matchyard.bench.figures.plots import series_of


def run(figure):
    chosen = figure.settings
    for name in chosen["workloads"]:
        for pivot in (chosen["pivot"], chosen["compare"]):
            for most in chosen["max_partition"]:
                options = {"pivot": pivot, "max_partition": most}
                index, source = prepared(name, figure.size, "tagmatch", options)
                n_partitions, n_sets = index.search_space(source.events(chosen["n_events"]))
                beside = pivot == chosen["compare"]
                for what, count in (("partitions", n_partitions), ("candidates", n_sets)):
                    yield {"series": f"{what}, {pivot}", "panel": name, "x": most, "y": count,
                           "beside": beside}  # fmt: skip


def judge(figure, rows):
    pivot, other = figure.settings["pivot"], figure.settings["compare"]
    shape, more, fewer, said = [], [], [], []
    for name in figure.settings["workloads"]:
        values_of = {
            series: [row["y"] for row in points]
            for series, points in series_of(row for row in rows if row["panel"] == name).items()
        }
        partitions, sets = (
            values_of[f"partitions, {pivot}"],
            values_of[f"candidates, {pivot}"],
        )
        shape.append(partitions[0] > partitions[-1] and sets[0] < sets[-1])
        parts_ratio = sum(partitions) / sum(values_of[f"partitions, {other}"])
        sets_ratios = [a / b for a, b in zip(sets, values_of[f"candidates, {other}"])]
        more.append(parts_ratio > 1)
        fewer.append(max(sets_ratios) <= 1 and min(sets_ratios) < 1)
        said.append(
            f"on {name} it makes {parts_ratio - 1:+.1%} partitions and "
            f"{min(sets_ratios) - 1:+.1%} to {max(sets_ratios) - 1:+.1%} candidates"
        )
    text = (
        f"against the {other} bit (thesis: slightly more partitions, fewer candidates) "
        + "; ".join(said)
    )
    if all(shape + more + fewer):
        return "reproduced", text
    return ("partly", text) if all(shape) and (any(more) or any(fewer)) else ("not", text)
