"""Congestion with greedy routing: eight rules for intermediate points, by size of requests."""

import math

from benchmarks.shared.geo_figures import base_of, measure, measure_baselines

from matchyard.bench.figures.claims import Claim, in_panel, verdict, ys
from matchyard.geo import RULES

WORKLOADS = {"uniform": "uniform", "in-line": "inline"}
OURS, OTHERS = "congestion, ", "other schemes, "  # panels, before the names of workloads
ANGLES = ("T60", "T45", "T30")
WIDE = ("C1.5", "C2")  # γ > 1
N_THESIS = 4  # sizes of requests from the thesis; the last size is ours


def run(figure):
    pair = measure(base_of(figure)._replace(workload="pair"), figure.threads)["y"]
    for name, workload in WORKLOADS.items():
        for size in figure.settings["request_sizes"]:
            base = base_of(figure)._replace(workload=workload, size=size)
            rules = {rule: measure(base._replace(rule=rule), figure.threads) for rule in RULES}
            for rule, measured in rules.items():
                yield {"series": rule, "panel": OURS + name, "x": size, **measured, "pair": pair}
            place = {"panel": OTHERS + name, "x": size}
            yield {"series": "tree, T60", **place, **rules["T60"]}
            for row in measure_baselines(base, figure.threads):
                yield row | place


def judge(figure, rows):
    sizes = figure.settings["request_sizes"]
    even, line = (ys(in_panel(rows, OURS + name)) for name in WORKLOADS)
    return verdict(
        *of_uniform(even),
        *of_line(line, sizes),
        *of_sizes(even, line, sizes, rows[0]["pair"]),
        besides=baselines(rows, sizes),
    )


def of_uniform(even):
    """Claims about uniform requests: angles, small arcs and large arcs."""
    small = over_best_angle(even, "C0.5")
    near = [c / t for c, t in zip(even["C0.5"], even["T30"])][:N_THESIS]
    wide = [c / t for c, t in zip(even["C2"], even["T60"])][:N_THESIS]
    return (
        Claim(
            f"uniform: C2 has {span(wide)} times the congestion of T60 (thesis: γ > 1 is definitely worse)",
            min(wide) >= 2.5,
        ),
        Claim(
            f"uniform: C0.5 has {span(near)} times that of T30 (thesis: angles are only slightly better than γ < 1)",
            min(near) >= 0.9 and max(near) <= 1.15,
        ),
        Claim(
            f"uniform: C0.5 has {span(small)} times that of the best angle (thesis: angles are the best)",
            min(small) >= 1,
        ),
    )


def of_line(line, sizes):
    """Claims about in-line requests: angles against arcs, and the size at which straight paths become the best."""
    first = line["C0"][0] / line["T60"][0]
    ranks = [min(RULES, key=lambda rule: line[rule][place]) for place in range(len(sizes))]
    wide = [min(values) for values in zip(*(line[rule] for rule in WIDE))]
    ahead = [w / t for w, t in zip(wide, line["T60"])][:N_THESIS]
    small = over_best_angle(line, "C0.5")
    best = ", ".join(f"M{size} {rule} {line[rule][place]:,.0f}"
                     for place, (size, rule) in enumerate(zip(sizes, ranks)))  # fmt: skip
    return (
        Claim(
            f"in-line: at M{sizes[0]} C0 has {first:.1f} times the congestion of T60 and is "
            f"{'the worst' if is_worst(line) else 'not the worst'} (thesis: the worst for small requests)",
            first >= 3 and is_worst(line),
        ),
        Claim(
            f"in-line: least are {best}; {crossing(line, sizes)} (thesis: C0 becomes the best for large requests, up "
            f"to M{sizes[N_THESIS - 1]})",
            ranks[N_THESIS - 1] == "C0",
        ),
        Claim(
            f"in-line: C0.5 has {span(small)} times that of the best angle (thesis: angles are the best)",
            min(small) >= 1,
        ),
        Claim(
            f"in-line: the better of C1.5 and C2 has {span(ahead)} times that of T60 (thesis: γ > 1 is worse, "
            "though less so than for uniform requests)",
            min(ahead) > 1,
        ),
    )


def over_best_angle(congestion, rule):
    """The congestion of a rule over that of the best angle, at each size of the thesis."""
    best = [min(values) for values in zip(*(congestion[angle] for angle in ANGLES))]
    return [value / least for value, least in zip(congestion[rule], best)][:N_THESIS]


def is_worst(line):
    return all(line["C0"][0] >= line[rule][0] for rule in RULES)


def crossing(line, sizes):
    """The sizes between which straight paths overtake all other rules, in words."""
    leads = [all(line["C0"][i] <= line[rule][i] for rule in RULES) for i in range(len(sizes))]
    if not any(leads):
        return f"C0 overtakes the others nowhere up to M{sizes[-1]}"
    place = leads.index(True)
    return f"C0 overtakes the others between M{sizes[max(0, place - 1)]} and M{sizes[place]}"


def of_sizes(even, line, sizes, pair):
    """Claims about the growth of congestion with the size, up to the largest requests of the thesis."""
    last = N_THESIS - 1
    times = sizes[last] / sizes[0]
    grown = {
        name: congestion["T60"][last] / congestion["T60"][0]
        for name, congestion in (("uniform", even), ("in-line", line))
    }
    powers = [math.log(factor) / math.log(times) for factor in grown.values()]
    said = " and ".join(f"{name} {factor:.1f}×" for name, factor in grown.items())
    return (
        Claim(
            f"with {times:g}× the nodes T60 grows {said}, to the powers of {powers[0]:.2f} and {powers[1]:.2f} "
            "(thesis: sublinear)",
            max(grown.values()) < times,
        ),
        Claim(
            f"in-line: at M{sizes[last]} T60 has {line['T60'][last]:,.0f}, a single pair of nodes with as many unicasts "
            f"{pair:,.0f} (thesis: as a worst case of unicasts)",
            line["T60"][last] <= pair,
        ),
    )


def baselines(rows, sizes):
    """Flooding and one message per target at the largest size of the thesis, in words."""
    size = sizes[N_THESIS - 1]
    said = []
    for name in WORKLOADS:
        others = [
            row for row in in_panel(rows, OTHERS + name) if row.get("beside") and row["x"] == size
        ]
        said.append(f"{name} {', '.join(map(in_words, others))}")
    return f"for comparison, at M{size}: {' and '.join(said)}"


def in_words(row):
    return f"{row['series']} {row['y']:,.0f}"


def span(values):
    return f"{min(values):.2f} to {max(values):.2f}"
