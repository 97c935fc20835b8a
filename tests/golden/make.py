"""Write the golden indexes of the current format: `python -m tests.golden.make`.

Run it once when the format number is raised, and commit the folder; those of older formats stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matchyard as my
from matchyard.engine import find_engine
from matchyard.storage import FORMAT, blocks
from tests.cases import empty
from tests.predicate_cases import INTERVALS_ONLY

FOLDER = Path(__file__).parent
# Options for small files.
SMALL = {
    "hem": {"n_cells": 4, "n_groups": 2},
    "rein": {"n_cells": 4},
    "ada_rein": {"n_cells": 4},
    "tama": {"n_levels": 3},
}
ROWS = [
    (["jazz", "live"], "ada"),
    (["jazz", "oslo"], "bob"),
    (["jazz", "live"], "Zoë"),
    ([], "all"),
    (["日本", "🦉"], "ada"),
    (["live"], "gone"),
]
EVENTS = [["jazz", "live", "oslo"], ["日本", "🦉", "live"], ["rock"], []]
ANSWERS = [["Zoë", "ada", "all", "bob"], ["ada", "all"], ["all"], ["all"]]
NUMBERS = {"ada": 1, "bob": -2, "Zoë": 2**53 + 1, "all": 2**63 - 1, "gone": 0}

# The same for predicates that every algorithm takes…
PREDICATE_ROWS = [
    ("temp > 30 and wind in [1, 5]", "ada"),
    ("temp in (0, 2.5)", "bob"),
    ("temp > 30 and wind in [1, 5]", "Zoë"),
    ("humidity >= 9007199254740993", "all"),
    ("`höhe` < 0", "ada"),
    ("temp > -1", "gone"),
]
PREDICATE_EVENTS = [
    {"temp": 31, "wind": 5, "humidity": 2**53 + 1},
    {"temp": 1, "höhe": -0.5, "wind": "5"},
    {"temp": 2.5, "humidity": 2**53},
    {},
    {"city": "MALMÖ", "a": [{"x": 1}, {"y": 2}], "tag": "a-b"},
    {"city": "Malmö", "a": [{"x": 1, "y": 2}]},
]
PREDICATE_ANSWERS = [["Zoë", "ada", "all"], ["ada", "bob"], [], [], [], []]
# …and for one that only some take.
ANY_ROW = (
    'city suffix "mö" ignoring case and not (a.x = 1 and a.y = 2) and tag wildcard "a*b"'
    ' or tag in {"é", 7, null, cidr "10.0.0.0/8"}',
    "bob",
)
ANY_ANSWERS = [*PREDICATE_ANSWERS[:4], ["bob"], []]

TWIG_ROWS = [
    ("/a//c[//d]/e", "ada"),  # the paper's Figure 4: no match, though both paths are there
    ("/a//c//d | //höhe", "bob"),
    ("/a//c[//d]/e", "Zoë"),
    ("//*[not(x)]", "all"),
    ('//item[@price <= 9.5 and not(@sold)][text() = "é" or . != "日本"]', "ada"),
    ("//e", "gone"),
]
TWIG_EVENTS = [
    "<a><c><b><d/></b></c><c><e/></c></a>",
    "<a><c><e/><b><d/></b></c></a>",
    '<item price="9.50">é</item>',
    '<item price="9.50">日本</item>',
    "<x><höhe><x/></höhe></x>",
]
TWIG_ANSWERS = [
    ["all", "bob"], ["Zoë", "ada", "all", "bob"], ["ada", "all"], ["all"], ["all", "bob"],
]  # fmt: skip


def rows_of(engine: str, algorithm: str) -> list[tuple[Any, str]]:
    """The subscriptions and their keys."""
    if engine == "tags":
        return list(ROWS)
    if engine == "twigs":
        return list(TWIG_ROWS)
    return [*PREDICATE_ROWS, *([] if algorithm in INTERVALS_ONLY else [ANY_ROW])]


def answers_of(engine: str, algorithm: str) -> tuple[list[Any], list[list[str]]]:
    """The events, and the keys that match them."""
    if engine == "tags":
        return list(EVENTS), ANSWERS
    if engine == "twigs":
        return list(TWIG_EVENTS), TWIG_ANSWERS
    return list(PREDICATE_EVENTS), (
        PREDICATE_ANSWERS if algorithm in INTERVALS_ONLY else ANY_ANSWERS
    )


def make(path: Path, engine: str, algorithm: str, strings: bool) -> None:
    """One index from which one subscription was removed, in several shards where that is cheap."""
    shard_size = 1000 if algorithm in SMALL else 3
    index = empty(engine, algorithm, SMALL.get(algorithm), shard_size=shard_size)
    for row, key in rows_of(engine, algorithm):
        index.add(row, key if strings else NUMBERS[key])
    index.consolidate().remove("gone" if strings else 0).save(path)
    (path / ".lock").unlink()


if __name__ == "__main__":
    blocks.BLOCK_BYTES = 256  # small files have checksums of blocks, too
    for engine in my.ENGINES:
        for name in find_engine(engine).algorithms:
            # The other algorithms of an engine store keys the same way.
            is_default = name == find_engine(engine).default
            for kind in ("str", "int") if engine == "tags" or is_default else ("str",):
                path = FOLDER / f"format-{FORMAT}" / f"{name}-{kind}"
                if not path.exists():
                    make(path, engine, name, kind == "str")
