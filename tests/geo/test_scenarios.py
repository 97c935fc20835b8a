"""Scenarios: parameters in, congestion out."""

from __future__ import annotations

import pytest

from matchyard import geo
from matchyard.errors import UsageError
from matchyard.geo.scenario import (
    Scenario,
    baselines,
    cross,
    make_workload,
    of_thesis,
    run,
    run_all,
    uniform_mesh,
)

SMALL = Scenario(nodes=300, side=6, requests=12, size=4, runs=3)


def test_a_scenario_gives_the_same_outcome_again() -> None:
    first = run(SMALL)
    assert run(SMALL) == first == run(SMALL, threads=2)
    uniform_mesh.cache_clear()
    assert run(SMALL) == first
    assert run(SMALL, geo.uniform(300, 6, 1, seed=1)) == first
    assert run(SMALL._replace(seed=2)) != first
    assert run(SMALL._replace(mesh_seed=2)) != first


@pytest.mark.parametrize("workload", ["uniform", "inline", "pair"])
@pytest.mark.parametrize("tree", ["mst", "star"])
def test_an_outcome_is_what_sending_gives(workload: str, tree: str) -> None:
    given = SMALL._replace(
        workload=workload, tree=tree, rule="C1", arc=90, routing="grdrnd2", recovery="face",
        r_i=2, band=2,
    )  # fmt: skip
    mesh = geo.uniform(300, 6, 1, 2, seed=1)
    requests = {
        "uniform": lambda: geo.workload.uniform(mesh, 12, 4, 1),
        "inline": lambda: geo.workload.inline(mesh, 12, 4, 1, 2),
        "pair": lambda: geo.workload.pair(mesh, 12),
    }[workload]()
    assert make_workload(mesh, given).targets.tolist() == requests.targets.tolist()
    sending = geo.send(
        mesh, requests, "grdrnd2", geo.Rule("C1", 90), 3, 1, recovery="face", tree=tree
    )
    found = run(given)
    assert found[:3] == (3, sending.congestion, sending.load.mean())
    assert found[3:] == sending.work


def test_flooding_is_a_scenario_of_one_run() -> None:
    found = run(SMALL._replace(tree="flood"))
    mesh = geo.uniform(300, 6, 1, seed=1)
    flooded = geo.flood(mesh, geo.workload.uniform(mesh, 12, 4, 1))
    assert (found.done_runs, found.congestion) == (1, flooded.congestion)
    assert found.transmissions == flooded.work.transmissions


def test_the_thesis_has_320_scenarios() -> None:
    scenarios = of_thesis()
    assert len(scenarios) == len(set(scenarios)) == 320
    assert {one.runs for one in scenarios} == {50}
    assert len(of_thesis(5, ["grd"])) == 64
    assert {(one.nodes, one.side, one.r_c, one.requests) for one in scenarios} == {
        (80_000, 100, 1, 1_000)
    }


def test_values_are_crossed_in_the_order_given() -> None:
    found = list(cross(SMALL, size=[2, 4], rule=["T60", "C0"]))
    assert [(one.size, one.rule) for one in found] == [
        (2, "T60"), (2, "C0"), (4, "T60"), (4, "C0"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no parameter 'colour'; expected one of nodes, side"):
        list(cross(SMALL, colour=["red"]))


def test_each_set_of_requests_has_its_baselines_once() -> None:
    found = baselines(cross(SMALL, routing=["grd", "gsp"], rule=["T60", "C1"], size=[2, 4]))
    assert len(found) == 6
    assert {(one.tree, one.rule, one.routing) for one in found} == {
        ("flood", "C0", "grd"), ("star", "C0", "grd"), ("star", "T60", "grd"),
    }  # fmt: skip


def test_rows_have_parameters_and_outcomes() -> None:
    told: list[int] = []
    scenarios = list(cross(SMALL, rule=["T60", "C0"]))
    rows = list(run_all(scenarios, progress=told.append))
    assert told == [1, 1]
    for scenario, row in zip(scenarios, rows):
        assert row == {**scenario._asdict(), **run(scenario)._asdict()}
    assert [row["done_runs"] for row in rows] == [3, 1]
    assert rows[0]["deliveries"] == 3 * 12 * 3
