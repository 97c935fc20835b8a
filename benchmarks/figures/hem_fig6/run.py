"""Matching time while subscriptions grow."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import (
    Claim,
    ahead,
    in_panel,
    ratio,
    reduced,
    reductions,
    rises,
    verdict,
    ys,
)

run = sweeps.matching_times


def judge(figure, rows):
    series, real = (ys(in_panel(rows, panel)) for panel in ("hem", "kdd"))
    return verdict(
        *reductions(series, figure.settings["reductions"]),
        rises(series, ["hem", *figure.settings["reductions"]], "ψ_S", 1.5),
        Claim(
            f"ada_rein takes {ratio(series['ada_rein'], series['rein']):.2f}× as long as rein "
            "(paper: almost the same)",
            0.8 < ratio(series["ada_rein"], series["rein"]) < 1.25,
        ),
        besides=ahead(series, "tiles", ["hem", "rein"]) + reduced(real, "kdd"),
    )
