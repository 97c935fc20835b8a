"""The share of throughput that remains if one factor grows, or if twigs are replaced."""

from benchmarks.shared.twig_sweeps import Card, Copies, filled, side_by_side

from matchyard.bench.figures.claims import ON_GPU, Claim, verdict


def run(figure):
    chosen = figure.settings
    for factor in chosen["factors"]:
        places = [_place(figure, chosen["base"] | factor[end]) for end in ("from", "to")]
        for name in chosen["algorithms"]:
            pair = [
                Copies(*filled(place, name, figure.device), place.n_documents, 1)
                for place in places
            ]
            yield _row(name, factor["says"], pair)
    says = f"{100 * chosen['changed']:.0f} % of twigs replaced"
    for name in chosen["algorithms"]:
        place = _place(figure, chosen["base"])
        yield _row(name, says, _changed(name, place, chosen["changed"], figure.device))


def _place(figure, values):
    values = dict(values)
    return Card(max(1, round(values.pop("share") * figure.size)), **values)


def _changed(name, place, share, device):
    """A fresh index, and one with some twigs replaced."""
    (before, source), (after, _) = (filled(place, name, device) for _ in range(2))
    n_changed = max(1, round(share * place.twigs))
    others = place._replace(chance=0.2).source().subscriptions(0, n_changed)[0]
    for key in range(n_changed):
        after.remove(key)
    after.add_many(others, range(n_changed)).consolidate()
    return [Copies(index, source, place.n_documents, 1) for index in (before, after)]


def _row(name, says, pair):
    before, after = (timed.mb_per_s for timed in side_by_side(pair))
    return {"series": "here", "panel": name, "x": says, "y": after / before,
            "before_mb_per_s": before, "after_mb_per_s": after}  # fmt: skip


def judge(figure, rows):
    kept = {(row["x"], row["panel"]): row["y"] for row in rows}
    size, twigs, nodes, chance, splits, batch = (
        factor["says"] for factor in figure.settings["factors"]
    )
    changed = next(row["x"] for row in rows if "replaced" in row["x"])
    stacks = "stacks" + ON_GPU if figure.card else "stacks"
    called = f"stacks on {figure.card}" if figure.card else "stacks"
    times = {factor["says"]: factor["times"] for factor in figure.settings["factors"]}

    def slowly(factor):
        """True if throughput falls, but far less than in proportion."""
        return times[factor] ** -0.5 < kept[factor, "yfilter"] < 0.95

    def hardly(factor, name):
        return 0.8 < kept[factor, name] < 1.25

    return verdict(
        Claim(
            f"from 10 to 50 % * and // yfilter keeps {kept[chance, 'yfilter']:.2f} (paper: 0.52)",
            0.3 < kept[chance, "yfilter"] < 0.8,
        ),
        Claim(f"{kept[twigs, 'yfilter']:.2f} with 16× the twigs (paper: slowly decreases)", slowly(twigs)),
        Claim(f"{kept[nodes, 'yfilter']:.2f} with 3× the nodes (paper: slowly decreases)", slowly(nodes)),
        Claim(f"{kept[size, 'yfilter']:.2f} with 64× the document (paper: decreases)", kept[size, "yfilter"] < 0.95),
        Claim(f"{kept[batch, 'yfilter']:.2f} with 20× the batch (paper: slowly decreases)", slowly(batch)),
        Claim(
            f"{kept[splits, 'yfilter']:.2f} with bushier twigs and {kept[changed, 'yfilter']:.2f} "
            "after changes (paper: minimal effects)",
            hardly(splits, "yfilter") and hardly(changed, "yfilter"),
        ),
        Claim(
            f"{called} keeps {kept[chance, stacks]:.2f} with * and //, {kept[size, stacks]:.2f} with "
            f"the document, {kept[splits, stacks]:.2f} with bushier twigs (paper: no or minimal "
            "effects, on a GPU)",
            all(hardly(factor, stacks) for factor in (chance, size, splits)),
        ),
        besides=f"lazy_dfa, which is ours, keeps {kept[twigs, 'lazy_dfa']:.2f} with 16× the twigs, "
        f"{kept[nodes, 'lazy_dfa']:.2f} with 3× the nodes and {kept[chance, 'lazy_dfa']:.2f} with * and //",
    )  # fmt: skip
