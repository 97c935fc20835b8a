"""What varies in a figure, and what papers claim about it."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.shared import sweeps

import matchyard as my
from matchyard.bench.figures import claims, figures, plots
from matchyard.bench.figures.claims import Claim
from matchyard.engines.predicates.algorithms import hem

FIGURES = figures.find_figures(Path(__file__).parents[2])


def points(size=1000, **settings):
    figure = FIGURES["hem-fig6"]._replace(size=size, settings=settings)
    return list(sweeps.points(figure))


def test_a_parameter_varies_beside_others():
    found = points(varies="width", values=[0.1, 0.5], parameters={"attributes": 30})
    assert found[1] == (0.5, 1000, {"attributes": 30, "width": 0.5})


def test_size_varies_by_shares():
    assert points(varies="size", values=[0.1, 1.0], per=10) == [(10, 100, {}), (100, 1000, {})]


def test_fewest_and_most_lie_to_either_side():
    found = points(varies=["few", "many"], values=[1, 2, 4])
    assert [point.parameters for point in found] == [
        {"few": 1, "many": 1}, {"few": 1, "many": 3}, {"few": 3, "many": 5},
    ]  # fmt: skip


def test_size_grows_with_what_varies():
    found = points(varies="interfaces", values=[10, 40], grows=True)
    assert [point.size for point in found] == [1000, 4000]


@pytest.mark.parametrize(
    ("holds", "word"),
    [((True, True), "reproduced"), ((True, False), "partly"), ((False, True), "not")],
)
def test_without_the_main_claim_nothing_is_reproduced(holds, word):
    main, other = (Claim(text, true) for text, true in zip(("main", "other"), holds))
    assert claims.verdict(main, other)[0] == word


def test_reductions_below_the_published_ones_are_said():
    found = {"hem": [1.0, 1.0], "rein": [10.0, 10.0], "tama": [2.0, 2.0]}
    ahead, good, bad = claims.reductions(found, {"rein": 91.0, "tama": 80.0})
    assert ahead.holds
    assert good.holds
    assert not bad.holds
    assert "tama by 50.0 % (paper: 80.0 %)" in bad.text


@pytest.mark.parametrize("n_groups", [0, 1, 8])
def test_marks_are_those_of_hem(n_groups):
    source = my.workload("predicates", "hem", 700)
    index = my.PredicateIndex("hem", {"n_groups": n_groups})
    index.add_many(*source.subscriptions(0, 700)).consolidate()
    (segment,) = index.segments()
    column = segment.settings.engine.encoder.column(
        source.events(30), segment.settings.input_options
    )
    expected = hem.marks(segment.tables[0], segment.encode(column), segment.settings.options)
    assert sweeps.mark(index, source.events(30))[0] == expected > 0


def test_real_data_has_a_panel_where_it_is(monkeypatch):
    recorded = {"workload": "kdd", "parameters": {"stride": 997}}
    settings = {"workload": "hem", "parameters": {"attributes": 30}, "recorded": recorded}
    figure = FIGURES["hem-fig5"]._replace(settings=settings)
    monkeypatch.setenv("MATCHYARD_DATA", "somewhere")
    (_, generated), (panel, real) = sweeps.panels(figure)
    assert generated == figure
    assert panel == {"panel": "kdd"}
    assert (real.settings["workload"], real.settings["parameters"]) == ("kdd", {"stride": 997})
    monkeypatch.delenv("MATCHYARD_DATA")
    assert list(sweeps.panels(figure)) == [({"panel": "hem"}, figure)]
    alone = figure._replace(settings={"workload": "hem"})
    assert list(sweeps.panels(alone)) == [({}, alone)]


@pytest.mark.parametrize("name", ["hem-fig5", "hem-fig6", "hem-fig11", "hem-fig12"])
def test_what_is_judged_does_not_depend_on_real_data(name):
    figure = FIGURES[name]
    rows = json.loads((figure.folder / f"{name}.json").read_text())["rows"]
    judge = figures.load(figure).judge
    (word, reason), (same, shorter) = (
        judge(figure, rows),
        judge(figure, claims.in_panel(rows, "hem")),
    )
    assert word == same
    assert reason.startswith(shorter)
    assert "on kdd" in reason.removeprefix(shorter)


def test_names_of_lines_keep_apart_in_their_order():
    wanted = [0.0, 0.5, 0.5, 0.51, 0.52, 0.9]
    found = plots._spread(wanted)
    assert found == sorted(found)
    assert all(b - a > plots._GAP - 1e-9 for a, b in pairwise(found))
    assert (found[0], found[-1]) == (0.0, 0.9)
