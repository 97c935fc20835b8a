"""Write the golden indexes of the current format: `python -m tests.golden.make`.

Run it once when the format number is raised, and commit the folder; those of older formats stay.
"""

from __future__ import annotations

from pathlib import Path

import matchyard as my
from matchyard.engine import find_engine
from matchyard.storage import FORMAT

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


def make(path: Path, algorithm: str, strings: bool) -> None:
    """One index of five subscriptions in two shards, from which a sixth was removed."""
    index = my.TagIndex(algorithm, shard_size=3)
    for tags, key in ROWS:
        index.add(tags, key if strings else NUMBERS[key])
    index.consolidate().remove("gone" if strings else 0).save(path)
    (path / ".lock").unlink()


if __name__ == "__main__":
    for name in find_engine("tags").algorithms:
        for kind in ("str", "int"):
            make(FOLDER / f"format-{FORMAT}" / f"{name}-{kind}", name, kind == "str")
