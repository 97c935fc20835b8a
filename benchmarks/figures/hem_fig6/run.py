"""Matching time while subscriptions grow."""

from matchyard.bench import sweeps
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
    found, real = (ys(in_panel(rows, panel)) for panel in ("hem", "kdd"))
    return verdict(
        *reductions(found, figure.settings["reductions"]),
        rises(found, ["hem", *figure.settings["reductions"]], "ψ_S", 1.5),
        Claim(
            f"ada_rein takes {ratio(found['ada_rein'], found['rein']):.2f}× as long as rein "
            "(paper: almost the same)",
            0.8 < ratio(found["ada_rein"], found["rein"]) < 1.25,
        ),
        besides=ahead(found, "tiles", ["hem", "rein"]) + reduced(real, "kdd"),
    )
