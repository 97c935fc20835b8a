"""Throughput on one document, by number of twigs."""

from benchmarks.shared import twig_claims, twig_sweeps

from matchyard.bench.figures.claims import Claim, verdict

run = twig_sweeps.throughputs


def judge(figure, rows):
    both = twig_claims.by_panel(rows)
    panels, called = twig_claims.of_stacks(figure, both)
    first = [panel["stacks"][1] / panel["stacks"][0] for panel in panels.values()]
    return verdict(
        twig_claims.halves(panels, "stacks", figure.settings["shares"], called),
        Claim(
            f"with fewest, twice as many leave {twig_claims.said(first)} "
            "(paper: all, up to where the GPU is full)",
            min(first) > 0.9,
        ),
        twig_claims.longer_is_slower(panels, "stacks"),
        besides=twig_claims.ahead(both) + twig_claims.on_gpu(figure, both),
    )
