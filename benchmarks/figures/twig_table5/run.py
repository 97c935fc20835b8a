"""Throughput that is kept when one factor grows, or when twigs are replaced."""

import matchyard as my
from matchyard.bench import harness
from matchyard.bench.claims import Claim, verdict
from matchyard.bench.twig_sweeps import Copies, Place, measure, typical_round


def run(figure):
    chosen = figure.settings
    for factor in chosen["factors"]:
        few, many = (
            measure(_place(figure, chosen["base"] | factor[end]), chosen["algorithms"])
            for end in ("from", "to")
        )
        for name in chosen["algorithms"]:
            before, after = few[name, 1].mb_per_s, many[name, 1].mb_per_s
            yield {"series": "here", "panel": factor["panel"], "x": name, "y": after / before,
                   "before_mb_per_s": before, "after_mb_per_s": after}  # fmt: skip
    panel = f"{100 * chosen['changed']:.0f} % of twigs replaced"
    for name in chosen["algorithms"]:
        kept = _changed(name, _place(figure, chosen["base"]), chosen["changed"])
        yield {"series": "here", "panel": panel, "x": name, "y": kept}


def _place(figure, values):
    values = dict(values)
    return Place(max(1, round(values.pop("share") * figure.size)), **values)


def _changed(name, place, share):
    """Throughput after some twigs were replaced, as a share of that before."""
    source = place.source()
    index = my.TwigIndex(name)
    harness.build(index, source)
    before = typical_round(Copies(index, source, place.n_documents, 1))
    n_changed = max(1, round(share * place.twigs))
    others = place._replace(chance=0.2).source().subscriptions(0, n_changed)[0]
    for key in range(n_changed):
        index.remove(key)
    index.add_many(others, range(n_changed)).consolidate()
    return before.seconds / typical_round(Copies(index, source, place.n_documents, 1)).seconds


def judge(figure, rows):
    kept = {(row["panel"], row["x"]): row["y"] for row in rows}
    size, twigs, nodes, chance, splits, batch = (
        factor["panel"] for factor in figure.settings["factors"]
    )
    changed = rows[-1]["panel"]
    times = {factor["panel"]: factor["times"] for factor in figure.settings["factors"]}

    def slowly(panel):
        return 1 / times[panel] < kept[panel, "yfilter"] < 0.95

    def hardly(panel, name):
        return 0.8 < kept[panel, name] < 1.25

    return verdict(
        Claim(f"yfilter keeps {kept[twigs, 'yfilter']:.2f} with 16× the twigs", slowly(twigs)),
        Claim(f"{kept[nodes, 'yfilter']:.2f} with 3× the nodes (paper: both slowly decrease)", slowly(nodes)),
        Claim(
            f"{kept[chance, 'yfilter']:.2f} from 10 to 50 % * and // (paper: 0.52)",
            0.3 < kept[chance, "yfilter"] < 0.8,
        ),
        Claim(f"{kept[size, 'yfilter']:.2f} with 64× the document (paper: decreases)", kept[size, "yfilter"] < 0.95),
        Claim(f"{kept[batch, 'yfilter']:.2f} with 20× the batch (paper: slowly decreases)", slowly(batch)),
        Claim(
            f"{kept[splits, 'yfilter']:.2f} with bushier twigs and {kept[changed, 'yfilter']:.2f} "
            "after changes (paper: minimal effects)",
            hardly(splits, "yfilter") and hardly(changed, "yfilter"),
        ),
        Claim(
            f"stacks keeps {kept[chance, 'stacks']:.2f} with * and //, {kept[size, 'stacks']:.2f} with "
            f"the document, {kept[splits, 'stacks']:.2f} with bushier twigs (paper: no or minimal "
            "effects, on a GPU)",
            all(hardly(panel, "stacks") for panel in (chance, size, splits)),
        ),
        besides=f"lazy_dfa, which is ours, keeps {kept[twigs, 'lazy_dfa']:.2f} with 16× the twigs, "
        f"{kept[nodes, 'lazy_dfa']:.2f} with 3× the nodes and {kept[chance, 'lazy_dfa']:.2f} with * and //",
    )  # fmt: skip
