"""Speedup over yfilter on batches of documents, by number of twigs."""

from benchmarks.shared import twig_claims, twig_sweeps

from matchyard.bench.figures.claims import Claim, verdict


def run(figure):
    chosen = figure.settings
    for batch in chosen["batches"]:
        for share in chosen["shares"]:
            place = twig_sweeps.Card(
                max(1, round(share * figure.size)), batch, chosen["document_bytes"], chosen["nodes"],
                chosen["splits"], chosen["chance"],
            )  # fmt: skip
            yield from twig_sweeps.speedups(place, f"{batch} documents", place.twigs, figure)


def judge(figure, rows):
    panels, called = twig_claims.of_stacks(figure, twig_claims.by_panel(rows))
    ends = [panel["stacks / yfilter"][-1] for panel in panels.values()]
    return verdict(
        twig_claims.speedup_halves(panels, figure.settings["shares"], "twigs", called),
        Claim(
            f"with most twigs {called} is {min(ends):.2f}× as fast (paper: less than 1)",
            min(ends) < 1,
        ),
        *twig_claims.of_batches(panels, figure.settings["copies"], called),
        besides=twig_claims.ours_over_yfilter(panels),
    )
