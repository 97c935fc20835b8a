"""The default scenario: processing time, deployment, memory, and popular names."""

from benchmarks.shared import steps, sweeps

import matchyard as my
from matchyard.bench.figures.claims import Claim, of_gpu, verdict


def run(figure):
    event, deployment, memory, zipf = figure.settings["panels"]
    for algorithm in figure.settings["algorithms"]:
        source = my.workload("predicates", "ccm", figure.size)
        index, build_s = sweeps.built(source, algorithm, device=figure.device)
        size = sweeps.megabytes(index)
        if figure.device == "gpu":  # deployment includes the copy to the card
            copy = steps.copied(index, source)
            build_s, size = build_s + copy.seconds, copy.n_bytes / 1e6
        result = sweeps.timed(index, source, build_s, "match_unique")
        popular = my.workload("predicates", "ccm-zipf", figure.size)
        skewed, _ = sweeps.built(popular, algorithm, device=figure.device)
        other = sweeps.timed(skewed, popular, 0.0, "match_unique")
        values = {event: result.match_us, deployment: 1e3 * build_s,
                  memory: size, zipf: other.match_us}  # fmt: skip
        for panel, value in values.items():
            yield {"series": "here", "panel": panel, "x": algorithm, "y": value}


def judge(figure, rows):
    event, deployment, memory, zipf = figure.settings["panels"]
    values_of = {(row["panel"], row["x"]): row["y"] for row in rows}
    grown = {name: values_of[zipf, name] / values_of[event, name] for name in ("counting", "sff")}
    built, size = (
        values_of[panel, "sff"] / values_of[panel, "counting"] for panel in (deployment, memory)
    )
    times = {name: value for (panel, name), value in values_of.items() if panel == event}
    ours, called = of_gpu(figure, times, "counting")
    faster = times["sff"] / ours
    tiles = [values_of[event, name] / values_of[event, "tiles"] for name in ("counting", "sff")]
    return verdict(
        Claim(
            f"popular names make counting {grown['counting']:.1f}× and sff {grown['sff']:.1f}× as "
            "slow (paper: 14.3× and 14.2×)",
            min(grown.values()) > 4,
        ),
        Claim(f"sff takes {built:.2f}× as long to deploy (paper: 1.88×)", built > 1),
        Claim(f"sff takes {size:.2f}× the memory of counting (paper: 1.25×)", size > 1),
        Claim(f"{called} is {faster:.2g}× as fast as sff (paper: 7.19×, on a GPU)", faster > 3),
        besides=f"tiles, which is ours, is as fast as {tiles[0]:.1f}× counting, {tiles[1]:.1f}× sff",
    )
