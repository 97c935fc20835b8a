"""Random subscriptions and events over few names, so that many match; and small indexes of every
algorithm."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import KNOWN, UNKNOWN, empty
from tests.predicate_cases import INTERVALS_ONLY

NAMES = ["a", "b", "c", "höhe", "x.y", "x.z"]
TEXTS = ["", "a", "ab", "abc", "B", "é", "10.0.0.1", "日本", "a*b"]
ELEMENTS = ["a", "b", "c", "d", "höhe"]
ATTRIBUTES = ["p", "q"]
# Options that make the structures of small tables deep, and tables of both kinds.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "rarest": [{"leaf": 2}],
    "tagmatch": [{"n_bits": 70, "max_partition": 4, "block": 2, "batch": 3}],
    "prefix_tree": [{"n_bits": 70, "leaf": 2}],
    "scan": [{"n_bits": 70, "stripe": 70}],
    "auto": [{"small": 8}],
    "tiles": [{"cells": 4, "dense": 1e9}, {"cells": 4, "dense": 1e-9}],
    "hem": [{"n_cells": 4, "n_groups": 2}],
    "rein": [{"n_cells": 4}],
    "ada_rein": [{"n_cells": 4}],
    "tama": [{"n_levels": 3}],
}


def tag_set(random: Random) -> list[str]:
    """A random subscription of tags."""
    return random.choices(KNOWN, k=random.randint(0, 4))


def tag_event(random: Random) -> list[str]:
    """A random event of tags."""
    return random.choices(KNOWN + UNKNOWN, k=random.randint(0, 8))


def _number(random: Random) -> float:
    return random.choice(
        [random.randint(-3, 9), random.randint(0, 20) / 4, 2**53 + random.randint(0, 2), -(2**40)]
    )


def interval(random: Random) -> str:
    """A random predicate that every algorithm accepts."""
    names = random.sample(NAMES[:4], random.randint(1, 3))
    return " and ".join(f"`{name}` {_range(random)}" for name in names)


def _range(random: Random) -> str:
    if random.random() < 0.5:
        return f"{random.choice(['<', '<=', '>', '>=', '='])} {_number(random)}"
    low, high = sorted([_number(random), _number(random)])
    return f"in [{low}, {high}]"


def _constraint(random: Random) -> str:
    name, text = f"`{random.choice(NAMES)}`", random.choice(TEXTS)
    escaped = text.replace("*", r"\\*")
    kind = random.randint(0, 8)
    if kind <= 3:
        return f"{name} {_range(random)}"
    return [
        f'{name} = "{text}"',
        f'{name} prefix "{text}"',
        f'{name} suffix "{text}" ignoring case',
        f'{name} wildcard "a*{escaped}"',
        f"{name} exists",
    ][kind - 4]


def predicate(random: Random, depth: int = 2) -> str:
    """A random predicate of any kind, as text."""
    if depth == 0 or random.random() < 0.4:
        return _constraint(random)
    if random.random() < 0.2:
        return f"not ({predicate(random, depth - 1)})"
    word = random.choice([" and ", " or "])
    return "(" + word.join(predicate(random, depth - 1) for _ in range(random.randint(1, 3))) + ")"


def _value(random: Random) -> Any:
    kind = random.randint(0, 9)
    if kind <= 4:
        return _number(random)
    if kind <= 7:
        return random.choice(TEXTS)
    return random.choice([True, None, [1, "a"], []])


def flat_event(random: Random) -> dict[str, Any]:
    """A random event that every algorithm accepts."""
    return {name: _number(random) for name in NAMES[:4] if random.random() < 0.7}


def json_event(random: Random) -> dict[str, Any]:
    """A random event of any kind."""
    event = {name: _value(random) for name in NAMES[:4] if random.random() < 0.6}
    if random.random() < 0.6:
        inner = [
            {name: _value(random) for name in ("y", "z") if random.random() < 0.7}
            for _ in range(random.randint(0, 3))
        ]
        event["x"] = inner if random.random() < 0.7 else dict(*inner[:1])
    return event


def json_text(random: Random) -> str:
    """A random event as JSON; if a name comes twice, its last value counts."""
    text = json.dumps(inner := json_event(random), ensure_ascii=False)
    if inner and random.random() < 0.2:
        again = json.dumps({name: _value(random) for name in inner}, ensure_ascii=False)
        text = f"{text[:-1]}, {again[1:]}"
    return text


def twig(random: Random, depth: int = 2) -> str:
    """A random twig in XPath."""
    steps = [_step(random, depth) for _ in range(random.randint(1, 3))]
    return "".join(random.choice(["/", "//"]) + step for step in steps)


def _step(random: Random, depth: int) -> str:
    name = random.choice([*ELEMENTS, "*"])
    if depth == 0 or random.random() < 0.5:
        return name
    return name + "".join(f"[{_condition(random, depth - 1)}]" for _ in range(random.randint(1, 2)))


def _condition(random: Random, depth: int) -> str:
    kind = random.randint(0, 5)
    if kind == 0:
        return f"@{random.choice(ATTRIBUTES)} {random.choice(['<', '>=', '=', '!='])} {random.randint(0, 3)}"
    if kind == 1:
        return f'text() = "{random.choice(TEXTS[:5])}"'
    if kind == 2:
        return f"not({_step(random, depth)})"
    if kind == 3:
        return f"{_step(random, depth)} or @{random.choice(ATTRIBUTES)}"
    return random.choice(["", ".//"]) + _step(random, depth)


def document(random: Random, depth: int = 4) -> str:
    """A random XML document."""
    name = random.choice(ELEMENTS)
    attributes = "".join(
        f' {one}="{random.randint(0, 3)}"' for one in ATTRIBUTES if random.random() < 0.4
    )
    inner = "".join(
        document(random, depth - 1) if random.random() < 0.7 else random.choice(TEXTS[:5])
        for _ in range(random.randint(0, 3) if depth else 0)
    )
    return f"<{name}{attributes}>{inner}</{name}>"


def subscription(engine: str, random: Random, algorithm: str = "") -> Any:
    """A random subscription that an algorithm accepts."""
    if engine == "tags":
        return tag_set(random)
    if engine == "twigs":
        return twig(random)
    return interval(random) if algorithm in INTERVALS_ONLY else predicate(random)


def event(engine: str, random: Random, algorithm: str = "") -> Any:
    """A random event that an algorithm accepts."""
    if engine == "tags":
        return tag_event(random)
    if engine == "twigs":
        return document(random)
    return flat_event(random) if algorithm in INTERVALS_ONLY else json_event(random)


def key(random: Random, strings: bool) -> Any:
    """One of a few keys."""
    return f"k{random.randint(0, 9)}" if strings else random.randint(-2, 7)


def saved_indexes(
    folder: Path, random: Random, n_rows: int = 60
) -> list[tuple[Path, str, str, list[Any]]]:
    """Save an index of every algorithm: (path, engine, algorithm, events) of each."""
    indexes = []
    for engine in my.ENGINES:
        for algorithm in find_engine(engine).algorithms:
            for number, options in enumerate(OPTIONS.get(algorithm, [{}])):
                path = folder / f"{engine}-{algorithm}-{number}.index"
                make(path, engine, algorithm, options, random, n_rows, strings=number == 0)
                events = [event(engine, random, algorithm) for _ in range(12)]
                indexes.append((path, engine, algorithm, events))
    return indexes


def make(
    path: Path,
    engine: str,
    algorithm: str,
    options: dict[str, Any],
    random: Random,
    n_rows: int,
    strings: bool,
) -> None:
    """Save an index with random subscriptions, in two shards."""
    index = empty(engine, algorithm, options, shard_size=max(8, n_rows - 8))
    for _ in range(n_rows):
        index.add(subscription(engine, random, algorithm), key(random, strings))
    index.consolidate().save(path)


def answers(index: Any, events: list[Any]) -> list[list[str]]:
    """The keys of each event as sorted texts."""
    return [sorted(map(repr, keys)) for keys in index.match(events)]
