"""Scenarios: a row of parameters of a simulation, and a row of its results [thesis §4.7.2].

The mesh and the requests belong to the scenario. Runs redraw only the random choices of the scheme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from matchyard.errors import UsageError
from matchyard.geo import workload
from matchyard.geo.congestion import Traffic
from matchyard.geo.detour import RULES, Rule
from matchyard.geo.mesh import Mesh, uniform
from matchyard.geo.multicast import flood, send
from matchyard.geo.path import ROUTINGS
from matchyard.geo.workload import Requests

WORKLOADS = ("uniform", "inline", "pair")
TREES = ("mst", "star", "flood")  # the scheme; one message per target; flooding
SIZES = (2, 4, 8, 16)  # of requests in the thesis, with the source


class Scenario(NamedTuple):
    """A mesh, requests and a scheme; the defaults are from the thesis."""

    nodes: int = 80_000
    side: float = 100.0
    r_c: float = 1.0
    r_i: float = 1.0
    mesh_seed: int = 1
    workload: str = "uniform"
    size: int = 8  # nodes of a request, with the source
    requests: int = 1_000
    band: float = 1.0  # width of the band of in-line requests
    routing: str = "grd"
    recovery: str = "ring"
    rule: str = "T60"
    arc: float = 60.0
    tree: str = "mst"
    runs: int = 50
    seed: int = 1


class Outcome(NamedTuple):
    """The results of a scenario; all but `congestion` and `mean_load` are sums over all runs."""

    done_runs: int  # 1 for a scheme without randomness
    congestion: float  # the load of the busiest node, averaged over the runs
    mean_load: float
    transmissions: int
    broadcasts: int
    deliveries: int
    recoveries: int
    ring_transmissions: int
    lost: int
    undelivered: int


def run(scenario: Scenario, mesh: Mesh | None = None, threads: int = 1) -> Outcome:
    """Simulate a scenario, by default on its own mesh.

    >>> run(Scenario(nodes=500, side=8, requests=10, runs=2)).deliveries
    140
    """
    net = mesh or uniform_mesh(*scenario[:5])
    traffic = _sent(net, make_workload(net, scenario), scenario, threads)
    return Outcome(traffic.runs, traffic.congestion, float(traffic.load.mean()), *traffic.work)


@lru_cache(maxsize=4)
def uniform_mesh(nodes: int, side: float, r_c: float, r_i: float, seed: int) -> Mesh:
    """The mesh of a scenario; scenarios with equal parameters share it."""
    return uniform(nodes, side, r_c, r_i, seed)


def make_workload(mesh: Mesh, scenario: Scenario) -> Requests:
    """The requests of a scenario."""
    n, size, seed = scenario.requests, scenario.size, scenario.seed
    if scenario.workload == "uniform":
        return workload.uniform(mesh, n, size, seed)
    if scenario.workload == "inline":
        return workload.inline(mesh, n, size, seed, scenario.band)
    if scenario.workload == "pair":
        return workload.pair(mesh, n)
    raise UsageError(f"workload {scenario.workload!r}; expected one of {', '.join(WORKLOADS)}")


def _sent(mesh: Mesh, requests: Requests, scenario: Scenario, threads: int) -> Traffic:
    if scenario.tree == "flood":
        return flood(mesh, requests)
    return send(
        mesh,
        requests,
        scenario.routing,
        Rule(scenario.rule, scenario.arc),
        scenario.runs,
        scenario.seed,
        recovery=scenario.recovery,
        tree=scenario.tree,
        threads=threads,
    )


def cross(base: Scenario, **each: Iterable[Any]) -> Iterator[Scenario]:
    """A scenario for each combination of values.

    >>> [one.rule for one in cross(Scenario(), rule=["T60", "C0"], size=[2])]
    ['T60', 'C0']
    """
    unknown = [name for name in each if name not in Scenario._fields]
    if unknown:
        raise UsageError(
            f"no parameter {unknown[0]!r}; expected one of {', '.join(Scenario._fields)}"
        )
    for values in product(*each.values()):
        yield base._replace(**dict(zip(each, values)))


def of_thesis(runs: int = 50, routings: Iterable[str] = tuple(ROUTINGS)) -> list[Scenario]:
    """The thesis' 320 scenarios: 8 rules, 5 routings, 4 sizes and 2 workloads."""
    return list(
        cross(
            Scenario(runs=runs),
            routing=routings,
            workload=("uniform", "inline"),
            size=SIZES,
            rule=RULES,
        )
    )


def baselines(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """The baselines of scenarios: flooding, and one message per target with C0 and T60."""
    distinct: dict[Scenario, None] = {}
    for one in scenarios:
        plain = one._replace(routing="grd")
        distinct[plain._replace(tree="flood", rule="C0")] = None
        for rule in ("C0", "T60"):
            distinct[plain._replace(tree="star", rule=rule)] = None
    return list(distinct)


def run_all(
    scenarios: Iterable[Scenario],
    mesh: Mesh | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """A row for each scenario: its parameters and its outcome."""
    for scenario in scenarios:
        yield {**scenario._asdict(), **run(scenario, mesh, threads)._asdict()}
        if progress is not None:
            progress(1)
