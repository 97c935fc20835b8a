"""Algorithms for predicates beside each other: who is left out, and who is not exact."""

import json

import numpy as np
import pytest

import matchyard as my
from matchyard.bench import compare
from matchyard.bench.compare import forms, harness, report

pytestmark = pytest.mark.usefixtures("quick")


def rows_of(workload, algorithms, size=400, notes=None, **settings):
    note = (lambda message: None) if notes is None else notes.append
    return list(
        compare("predicates", workload, size, algorithms, n_events=40, passes=1, note=note, **settings)
    )  # fmt: skip


@pytest.mark.parametrize("workload", ["hem", "json-eq", "json-range"])
def test_all_algorithms_find_the_same(workload):
    results = rows_of(workload, my.algorithms("predicates"))
    assert {result.algorithm for result in results} == set(my.algorithms("predicates"))
    assert report.disagreement(results) is None
    assert all(0 < result.match_us <= result.event_us for result in results)


@pytest.mark.parametrize("workload", ["ccm", "ccm-zipf"])
def test_those_for_intervals_are_left_out_of_other_predicates(workload):
    notes = []
    results = rows_of(workload, my.algorithms("predicates"), notes=notes)
    assert [result.algorithm for result in results] == ["auto", "tiles", "counting", "sff"]
    assert len(notes) == 5
    assert notes[0].startswith("hem is left out: hem takes one interval per attribute")


@pytest.mark.parametrize("workload", ["hem", "ccm", "json-range"])
def test_events_are_the_same_in_every_form(workload):
    results = [rows_of(workload, ["tiles"], form=form)[0] for form in forms.FORMS]
    assert [result.form for result in results] == ["arrow", "python", "json"]
    assert len({result.checksum for result in results}) == 1
    events = my.workload("predicates", workload, 400).events(3)
    assert {type(event) for event in forms.given_as("python", events, None)} == {dict}
    assert {type(event) for event in forms.given_as("json", events, None)} == {bytes}


def test_one_that_is_asked_for_alone_and_refuses_is_an_error():
    with pytest.raises(my.UsageError, match="hem takes one interval"):
        rows_of("ccm", ["hem"])


def test_without_an_exact_one_beside_it_no_share_is_known():
    (result,) = rows_of("hem", ["ada_rein"])
    assert result.false_share is None


def test_one_that_is_not_exact_comes_last_and_must_miss_nothing():
    exact, other = rows_of(
        "hem", ["ada_rein", "tiles"], size=3000, parameters={"width": 0.99, "subscription_size": 3}
    )
    assert [exact.algorithm, other.algorithm] == ["tiles", "ada_rein"]
    assert exact.false_share is None
    assert 0 < other.false_share < 0.2
    assert report.disagreement([exact, other]) is None


def test_missed_matches_of_one_that_is_not_exact_are_seen():
    result = rows_of("hem", ["tiles"], parameters={"width": 0.9})[0]
    exact = np.array([0, 0, 1]), np.array([5, 6, 5])
    whole, missing = (
        harness._without_false(result, (np.array(events), np.array(keys)), exact)
        for events, keys in (([0, 0, 1, 2], [5, 6, 5, 9]), ([0, 1, 2], [5, 5, 9]))
    )
    assert whole.checksum == harness.checksum_of_pairs(*exact) != missing.checksum
    assert whole.false_share == 0.25


def test_command_says_who_is_left_out_and_prints_objects(capsys):
    from matchyard.cli import app

    app(["bench", "predicates", "--workload", "ccm", "--size", "300", "--events", "20",
         "--passes", "1", "--algorithms", "tiles,hem", "--json"], standalone_mode=False)  # fmt: skip
    said = capsys.readouterr()
    assert "hem is left out" in said.err
    assert json.loads(said.out)["algorithm"] == "tiles"


def test_table_fits_a_terminal(capsys):
    results = rows_of("hem", ["tiles", "rein", "ada_rein"])
    report.table(results)
    shown = capsys.readouterr().out
    assert "match µs" in shown
    assert "…" not in shown
