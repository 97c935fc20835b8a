"""Time to insert a subscription into the table of an algorithm, by its number of constraints."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, in_panel, ratio, rises, verdict, ys

run = sweeps.insertion_times


def judge(figure, rows):
    series, real = (ys(in_panel(rows, panel)) for panel in ("hem", "kdd"))
    more, most = ratio(series["hem"], series["rein"]), ratio(series["tama"], series["hem"])
    return verdict(
        Claim(f"hem takes {more:.2f}× as long as rein (paper: 1.43×)", 1.05 < more < 2),
        Claim(f"tama takes {most:.2f}× as long as hem (paper: the longest)", most > 1),
        rises(series, ["hem", "rein", "tama"], "ψ_S", 1.5),
        besides=f"on kdd hem takes {ratio(real['hem'], real['rein']):.2f}× as long as rein, and tama "
        f"{ratio(real['tama'], real['hem']):.2f}× as long as hem"
        if real
        else "",
    )
