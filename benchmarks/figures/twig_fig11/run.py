"""Speedup over yfilter on batches of documents, by length of twigs."""

from benchmarks.shared import twig_claims, twig_sweeps

from matchyard.bench.figures.claims import verdict


def run(figure):
    chosen = figure.settings
    twigs = max(1, round(chosen["share"] * figure.size))
    for batch in chosen["batches"]:
        for nodes, splits in twig_sweeps.lengths(figure):
            place = twig_sweeps.Card(
                twigs, batch, chosen["document_bytes"], nodes, splits, chosen["chance"]
            )
            yield from twig_sweeps.speedups(place, f"{batch} documents", nodes, figure)


def judge(figure, rows):
    panels, called = twig_claims.of_stacks(figure, twig_claims.by_panel(rows))
    return verdict(
        twig_claims.speedup_halves(panels, figure.settings["nodes"], "nodes", called),
        *twig_claims.of_batches(panels, figure.settings["copies"], called),
        besides=twig_claims.ours_over_yfilter(panels),
    )
