"""Throughput on a batch of documents, by number of twigs."""

from benchmarks.shared import twig_claims, twig_sweeps

from matchyard.bench.figures.claims import verdict

run = twig_sweeps.throughputs


def judge(figure, rows):
    both = twig_claims.by_panel(rows)
    panels, called = twig_claims.of_stacks(figure, both)
    return verdict(
        twig_claims.halves(panels, "stacks", figure.settings["shares"], called),
        twig_claims.has_no_break(panels, "stacks", figure.settings["shares"]),
        twig_claims.longer_halves(panels, "stacks"),
        besides=twig_claims.ahead(both) + twig_claims.on_gpu(figure, both),
    )
