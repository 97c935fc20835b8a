"""The claims of the paper on XML twigs that several of its figures share.

`stacks` is the paper's own algorithm. Its results on a GPU are judged if there are any, or else its
results on a processor. Values are throughputs or speedups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from benchmarks.shared.twig_sweeps import over, per_doubling
from matchyard.bench.figures.claims import ON_GPU, Claim, of_gpu, ratio
from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row, series_of

Panels = dict[str, dict[str, list[float]]]


def by_panel(rows: Sequence[Row]) -> Panels:
    """The values of each series, by panel."""
    panels: Panels = {}
    for (panel, series), points in series_of(rows, by_panel=True).items():
        panels.setdefault(panel, {})[series] = [row["y"] for row in points]
    return panels


def of_stacks(figure: Figure, panels: Panels) -> tuple[Panels, str]:
    """The values, with those of stacks from a GPU if there are any, and the label of stacks."""
    called = "stacks"
    chosen: Panels = {}
    for panel, series in panels.items():
        chosen[panel] = dict(series)
        for name in series:
            if name.split(" ")[0] == "stacks" and ON_GPU not in name:
                chosen[panel][name], called = of_gpu(figure, series, name)
    return chosen, called


def on_gpu(figure: Figure, panels: Panels) -> str:
    """The speedup of stacks on a GPU over one thread, in words; empty without a GPU."""
    pairs = [
        (panel["stacks" + ON_GPU], panel["stacks"])
        for panel in panels.values()
        if "stacks" + ON_GPU in panel
    ]
    times = [there / here for ours, theirs in pairs for there, here in zip(ours, theirs)]
    said_of = f"{min(times):.0f}× to {max(times):.0f}×" if times else ""
    return f"; stacks on {figure.card} is {said_of} as fast as on one thread" if times else ""


def halves(panels: Panels, name: str, shares: Sequence[float], called: str = "") -> Claim:
    """A claim: with many twigs, doubling them halves the throughput."""
    rates = [_kept(panel[name][-2:], shares[-2:]) for panel in panels.values()]
    return Claim(
        f"with most twigs, twice as many leave {said(rates)} of the throughput of {called or name} "
        "(paper: 0.5)",
        max(rates) < 0.75,
    )


def has_no_break(panels: Panels, name: str, shares: Sequence[float]) -> Claim:
    """A claim: with few twigs, throughput falls as with many."""
    rates = [_kept(panel[name][:2], shares[:2]) for panel in panels.values()]
    return Claim(
        f"with fewest, twice as many leave {said(rates)} (paper: 0.5, without a break)",
        max(rates) < 0.75,
    )


def _kept(values: Sequence[float], places: Sequence[float]) -> float:
    """The remaining share per doubling, from the first to the last value."""
    return per_doubling(values[0], values[-1], log2(places[-1] / places[0]))


def longer_is_slower(panels: Panels, name: str) -> Claim:
    """A claim: with most twigs, longer twigs have a lower throughput."""
    ends = [panel[name][-1] for panel in panels.values()]
    return Claim(
        f"with most twigs the longest keep {ends[-1] / ends[0]:.2f} of the throughput of the "
        "shortest (paper: less)",
        ends == sorted(ends, reverse=True),
    )


def longer_halves(panels: Panels, name: str) -> Claim:
    """A claim: twice the length halves the throughput; the first panels have 5 and 10 nodes."""
    short, long, *_ = (panel[name] for panel in panels.values())
    kept = ratio(long, short)
    return Claim(
        f"with 10 nodes it keeps {kept:.2f} of the throughput with 5 (paper: 0.5)", kept < 0.75
    )


def speedup_halves(
    panels: Panels, places: Sequence[float], what: str, called: str = "stacks"
) -> Claim:
    """A claim: doubling the varied value halves the speedup of `stacks`."""
    rates = [_kept(panel["stacks / yfilter"], places) for panel in panels.values()]
    return Claim(
        f"twice the {what} leave {said(rates)} of the speedup of {called} (paper: almost 0.5)",
        max(rates) < 0.75,
    )


def of_batches(panels: Panels, copies: Sequence[int], called: str = "stacks") -> list[Claim]:
    """The claims about batches of different sizes, and about several copies of yfilter."""
    small, large, *_ = panels.values()
    grown = ratio(large["stacks / yfilter"], small["stacks / yfilter"])
    most = f"stacks / {over(copies[-1])}"
    left = ratio(small[most], small["stacks / yfilter"])
    best = max(max(panel[most]) for panel in panels.values())
    return [
        Claim(f"in larger batches the speedup is {grown:.2f}× (paper: slightly less)", 0.8 < grown < 1),
        Claim(
            f"over {over(copies[-1])} it is {left:.2f}× that over one (paper: lower)", left < 0.95
        ),
        Claim(f"{called} is up to {best:.1f}× {over(copies[-1])} (paper: 4×, on a GPU)", best > 2),
    ]  # fmt: skip


def ahead(panels: Panels) -> str:
    """The speedups of our algorithm, on average and with most twigs, in words."""
    said_of = []
    for other in ("stacks", "yfilter"):
        pairs = [(panel["lazy_dfa"], panel[other]) for panel in panels.values()]
        mean = ratio(
            [a for ours, _ in pairs for a in ours], [b for _, theirs in pairs for b in theirs]
        )
        most = max(ours[-1] / theirs[-1] for ours, theirs in pairs)
        said_of.append(f"{mean:.1f}× as fast as {other} (up to {most:.1f}× with most twigs)")
    return f"lazy_dfa, which is ours, is {' and '.join(said_of)}"


def ours_over_yfilter(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """The speedups of our algorithm over yfilter, in words."""
    values = [value for panel in panels.values() for value in panel["lazy_dfa / yfilter"]]
    return (
        f"lazy_dfa, which is ours, is {min(values):.1f}× to {max(values):.1f}× as fast as yfilter"
    )


def said(values: Sequence[float]) -> str:
    """A range in words.

    >>> said([0.5, 0.25]), said([0.5])
    ('0.25 to 0.50', '0.50')
    """
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
