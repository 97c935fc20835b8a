"""Matching time and memory of hem by number of groups."""

from benchmarks.shared import sweeps

import matchyard as my
from matchyard.bench.figures.claims import Claim, verdict
from matchyard.bench.figures.plots import series_of


def run(figure):
    chosen = figure.settings
    source = my.workload("predicates", "hem", figure.size)
    for n_groups in (0, *chosen["groups"]):
        index, _ = sweeps.built(source, "hem", {"n_groups": n_groups})
        values = sweeps.timed(index, source, 0.0).match_us, sweeps.megabytes(index)
        # Without groups there is no value of x: draw a line over the whole axis.
        places = [n_groups] if n_groups else [chosen["groups"][0], chosen["groups"][-1]]
        for panel, value in zip(chosen["panels"], values):
            for x in places:
                yield {"series": "hem" if n_groups else "no groups", "panel": panel, "x": x,
                       "y": value}  # fmt: skip


def judge(figure, rows):
    values_of = {
        key: {row["x"]: row["y"] for row in points} for key, points in series_of(rows, True).items()
    }
    times, sizes = ({name: values_of[panel, name] for name in ("hem", "no groups")}
                    for panel in figure.settings["panels"])  # fmt: skip
    less = 1 - times["hem"][32] / times["no groups"][1]
    more = sizes["hem"][32] / sizes["no groups"][1]
    best = min(times["hem"], key=times["hem"].get)
    grows = sizes["hem"][512] / sizes["hem"][256]
    return verdict(
        Claim(f"32 groups take {less:.1%} off the matching time (paper: 89.7 %)", less > 0.8),
        Claim(f"for {more:.2f}× the memory (paper: nearly twice)", 1.2 < more < 2.5),
        Claim(f"twice the groups take {grows:.2f}× the memory in the end (paper: exponential "
              "growth)", grows > 1.5),
        besides=f"the fastest has {best} groups",
    )  # fmt: skip
