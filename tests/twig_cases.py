"""The algorithms of twigs under test, once roomy and once cramped; see `tests.cases`."""

from __future__ import annotations

from typing import Any

from matchyard.engine import find_engine
from tests.cases import Case

ALGORITHMS = find_engine("twigs").algorithms
# No cache at all, or one that is full after a few elements; sections of one element; and expat in
# place of the scanner.
CRAMPED_OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("lazy_dfa", "full", {"cache_bytes": 3000, "small": 4}),
    ("lazy_dfa", "cramped", {"cache_bytes": 0, "small": 0}),
    ("lazy_dfa", "expat", {"parser": "expat"}),
    ("stacks", "expat", {"parser": "expat"}),
    ("yfilter", "cramped", {"section": 1}),
]
ROOMY = [Case(name, {}, name, "twigs") for name in ALGORITHMS]
CASES = ROOMY + [
    Case(name, options, f"{name}-{how}", "twigs") for name, how, options in CRAMPED_OPTIONS
]
# One case per algorithm, cramped where it can be, for tests that take their time.
ONE_EACH = [
    next(case for case in reversed(CASES) if case[0] == name and "parser" not in case.options)
    for name in ALGORITHMS
]
