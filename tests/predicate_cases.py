"""The algorithms of predicates under test, once roomy and once cramped; see `tests.cases`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from matchyard.engine import find_algorithm, find_engine
from tests.cases import Case
from tests.engines.predicates import strategies

ALGORITHMS = find_engine("predicates").algorithms
APPROXIMATE = ("ada_rein",)  # what they find need not match, but nothing that matches is missed
# Few cells and groups, so that whatever decides by them alone is wrong at once; and tables for many
# matches although there are few.
CRAMPED_OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("auto", "cramped", {"small": 1, "cells": 3, "survivors": 1e-6}),
    ("tiles", "dense", {"cells": 2, "dense": 1e-9}),
    ("tiles", "cramped", {"cells": 2, "survivors": 1e-6, "dense": 1e9}),
    ("hem", "cramped", {"n_cells": 2, "n_groups": 1}),
    ("rein", "cramped", {"n_cells": 2}),
    ("ada_rein", "cramped", {"n_cells": 2}),
    ("tama", "cramped", {"n_levels": 1}),
]


def supports(algorithm: str) -> str:
    """What an algorithm says it takes: "predicates" or "intervals"."""
    module: Any = find_algorithm(find_engine("predicates"), algorithm)
    return str(module.SUPPORTS)


ROOMY = [Case(name, {}, name, "predicates") for name in ALGORITHMS]
CRAMPED = [
    Case(name, options, f"{name}-{how}", "predicates") for name, how, options in CRAMPED_OPTIONS
]
CASES = ROOMY + CRAMPED
EXACT = [case for case in CASES if case.algorithm not in APPROXIMATE]
INTERVALS_ONLY = [name for name in ALGORITHMS if supports(name) == "intervals"]
# One case per exact algorithm, cramped where it can be, for tests that take their time.
ONE_EACH = list({case.algorithm: case for case in EXACT}.values())


def subscriptions(case: Case) -> st.SearchStrategy[Any]:
    """Predicates that the algorithm takes."""
    if case.algorithm in INTERVALS_ONLY:
        return strategies.interval_predicates()
    return strategies.predicates()


def events(case: Case) -> st.SearchStrategy[Any]:
    """Events that the algorithm takes."""
    return strategies.flat_events() if case.algorithm in INTERVALS_ONLY else strategies.events()
