"""Speedup over yfilter by size of the document, with few and many * and //."""

from benchmarks.shared import twig_claims, twig_sweeps

from matchyard.bench.figures.claims import Claim, ratio, verdict


def run(figure):
    chosen = figure.settings
    twigs = max(1, round(chosen["share"] * figure.size))
    for chance in chosen["chances"]:
        for size in chosen["kilobytes"]:
            place = twig_sweeps.Card(twigs, document_bytes=1000 * size, chance=chance)
            panel = f"{100 * chance:.0f} % * and //"
            yield from twig_sweeps.speedups(place, panel, size, figure)


def judge(figure, rows):
    panels, called = twig_claims.of_stacks(figure, twig_claims.by_panel(rows))
    stacks = [panel["stacks / yfilter"] for panel in panels.values()]
    more = ratio(stacks[-1], stacks[0])
    grown = [panel[-1] / panel[0] for panel in stacks]
    late = [panel[-1] / panel[-2] for panel in stacks]
    most = max(map(max, stacks))
    return verdict(
        Claim(
            f"{called} is up to {most:.1f}× as fast as yfilter (paper: 9×, on a GPU)", most > 4.5
        ),
        Claim(
            f"its speedup with most * and // is {more:.2f}× that with fewest (paper: larger)",
            more > 1.1,
        ),
        Claim(
            f"from the smallest document to the largest its speedup changes by {min(grown):.2f}× to "
            f"{max(grown):.2f}× (paper: falls)",
            max(grown) < 0.95,
        ),
        Claim(
            f"from 512 kB on it changes by {min(late):.2f}× to {max(late):.2f}× (paper: hardly)",
            0.8 < min(late) <= max(late) < 1.25,
        ),
        besides=twig_claims.ours_over_yfilter(panels),
    )
