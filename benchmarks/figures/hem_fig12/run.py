"""Memory of the indexes while the number of subscriptions grows."""

from benchmarks.shared import sweeps

from matchyard.bench.figures.claims import Claim, in_panel, ratio, rises, verdict, ys

run = sweeps.memory


def judge(figure, rows):
    series, real = (ys(in_panel(rows, panel)) for panel in ("hem", "kdd"))
    rein, tama = (ratio(series["hem"], series[name]) for name in ("rein", "tama"))
    tiles = ratio(series["tiles"], series["hem"])
    return verdict(
        Claim(f"hem takes {rein:.2f}× the memory of rein (paper: about 2×)", 1.3 < rein < 2.5),
        Claim(f"and {tama:.2f}× that of tama (paper: 0.64×)", 0.4 < tama < 0.9),
        rises(series, list(series), "n", 2),
        besides=f"tiles, which is ours, takes {tiles:.2f}× the memory of hem"
        + (
            f"; on kdd hem takes {ratio(real['hem'], real['rein']):.2f}× the memory of rein and "
            f"{ratio(real['hem'], real['tama']):.2f}× that of tama"
            if real
            else ""
        ),
    )
