"""Write the golden indexes of the current format: `python -m tests.golden.make`.

Run it once when the format number is raised, and commit the folder; those of older formats stay.
"""

from __future__ import annotations

from pathlib import Path

import matchyard as my
from matchyard.engine import find_engine
from matchyard.storage import FORMAT
from tests.cases import empty

FOLDER = Path(__file__).parent
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


# The same for predicates that every algorithm takes.
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
]
PREDICATE_ANSWERS = [["Zoë", "ada", "all"], ["ada", "bob"], [], []]


def make(path: Path, engine: str, algorithm: str, strings: bool) -> None:
    """One index of five subscriptions in two shards, from which a sixth was removed."""
    index = empty(engine, algorithm, shard_size=3)
    for row, key in ROWS if engine == "tags" else PREDICATE_ROWS:
        index.add(row, key if strings else NUMBERS[key])
    index.consolidate().remove("gone" if strings else 0).save(path)
    (path / ".lock").unlink()


if __name__ == "__main__":
    for engine in my.ENGINES:
        for name in find_engine(engine).algorithms:
            for kind in ("str", "int"):
                path = FOLDER / f"format-{FORMAT}" / f"{name}-{kind}"
                if not path.exists():
                    make(path, engine, name, kind == "str")
