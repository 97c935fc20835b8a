"""Random feeds of changes, and the plain table that they come to."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa

import matchyard as my
from tests.spark.frames import TAGS

WORDS = {"insert": "insert", "delete": "DELETE", "update": "u", "remove": "remove"}
FEED = pa.schema([("key", pa.int64()), ("tags", TAGS), ("op", pa.string()), ("at", pa.int64())])
Change = tuple[int, int, str, tuple[str, ...] | None]  # at, key, op, tags


def feed(rows: list[Change]) -> pa.Table:
    return pa.table(
        {
            "key": [row[1] for row in rows],
            "tags": pa.array([None if row[3] is None else list(row[3]) for row in rows], TAGS),
            "op": [WORDS[row[2]] for row in rows],
            "at": [row[0] for row in rows],
        },
        FEED,
    )


def applied(rows: list[Change], held: Counter[Any] | None = None) -> Counter[Any]:
    """What a plain table has after the changes, one after the other: pairs of key and tags."""
    table = Counter(held or ())
    ranks = {"remove": 0, "delete": 1, "update": 2, "insert": 3}
    for _, key, op, tags in sorted(rows, key=lambda row: (row[0], ranks[row[2]])):
        value = None if tags is None else frozenset(tags)
        if op == "update" or tags is None:
            table = Counter({pair: n for pair, n in table.items() if pair[0] != key})
        elif op == "remove":
            table.pop((key, value), None)
        elif op == "delete":
            table = +(table - Counter({(key, value): 1}))
        if op in ("insert", "update"):
            table[key, value] += 1
    return table


def in_index(path: Any) -> Counter[Any]:
    return Counter((key, frozenset(tags)) for key, tags in my.open(path).items())


def drawn(seed: int, n_changes: int, n_keys: int) -> list[Change]:
    rng = random.Random(seed)
    rows: list[Change] = []
    for _ in range(n_changes):
        op = rng.choice(["insert"] * 4 + ["delete"] * 3 + ["update", "remove"])
        tags = tuple(rng.choice("abc") for _ in range(rng.randrange(3)))
        nothing = op == "delete" and rng.random() < 0.2
        rows.append(
            (rng.randrange(n_changes // 2), rng.randrange(n_keys), op, None if nothing else tags)
        )
    return rows


def in_order(rows: list[Change]) -> list[Change]:
    """The changes sorted by their moments, each with a moment of its own, as in a log."""
    return [(at, *row) for at, (_, *row) in enumerate(sorted(rows, key=lambda row: row[0]))]  # type: ignore[misc]
