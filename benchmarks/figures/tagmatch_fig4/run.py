"""Throughput of match and match_unique while the database grows."""

from matchyard.bench.figures import series_of
from matchyard.bench.steps import prepared, speed


def run(figure):
    for share in figure.settings["shares"]:
        size = int(share * figure.size)
        for algorithm in figure.settings["algorithms"]:
            index, source = prepared("twitter", size, algorithm)
            for verb in ("match", "match_unique"):
                result = speed(index, source, figure.threads, verb)
                yield {"series": f"{algorithm} {verb}", "x": size, "y": result.events_per_s,
                       "pairs_per_s": result.pairs_per_s}  # fmt: skip


def judge(figure, rows):
    falls = [
        name
        for name, points in series_of(rows).items()
        if points[-1]["y"] < points[0]["y"] and name.split()[1] == "match"
    ]
    last = {row["series"]: row["y"] for row in rows if row["x"] == figure.size}
    ratio = last["tagmatch match"] / last["prefix_tree match"]
    ours = last["rarest match"] / last["tagmatch match"]
    text = (
        f"throughput falls as the database grows for {', '.join(falls)}; tagmatch is {ratio:.1f}× "
        f"prefix_tree (paper: 8×, with GPUs), and rarest is {ours:.1f}× tagmatch"
    )
    if len(falls) == len(figure.settings["algorithms"]) and ratio > 4:
        return "reproduced", text
    return ("partly", text) if ratio > 1 else ("not", text)
