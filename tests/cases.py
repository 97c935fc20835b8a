"""The algorithms under test, once roomy and once cramped, and rows for them to chew on.

With 192 bits and eight tags a missing exact check is never noticed; with 6 bits it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from hypothesis import strategies as st

import matchyard as my
from matchyard import shards
from matchyard.engine import find_algorithm, find_engine

PIVOTS = ("balanced", "frequent", "prefix")
CRAMPED_TAGMATCH = {"n_bits": 6, "n_hashes": 2, "max_partition": 2, "block": 2, "batch": 2}


class Case(NamedTuple):
    """One algorithm with one set of options."""

    algorithm: str
    options: dict[str, Any]
    name: str
    engine: str = "tags"


ROOMY = [
    Case("rarest", {}, "rarest"),
    *(Case("tagmatch", {"pivot": pivot}, f"tagmatch-{pivot}") for pivot in PIVOTS),
    Case("prefix_tree", {}, "prefix_tree"),
    Case("scan", {}, "scan"),
]
CRAMPED = [
    Case("rarest", {"leaf": 1}, "rarest-cramped"),
    *(
        Case("tagmatch", {**CRAMPED_TAGMATCH, "pivot": pivot}, f"tagmatch-{pivot}-cramped")
        for pivot in PIVOTS
    ),
    Case("prefix_tree", {"n_bits": 6, "leaf": 1}, "prefix_tree-cramped"),
    Case("scan", {"n_bits": 6, "stripe": 3}, "scan-cramped"),
]
if os.environ.get("MATCHYARD_TEST_DEVICE") == "gpu":
    CRAMPED += [
        Case("tagmatch", {**CRAMPED_TAGMATCH, "pre_process": "cpu"}, "tagmatch-cpu-cramped")
    ]
CASES = ROOMY + CRAMPED
SIGNED = [case for case in CASES if case.algorithm != "rarest"]
# One cramped case per algorithm, for tests that take their time.
ONE_EACH = [
    next(case for case in CRAMPED if case.algorithm == name)
    for name in find_engine("tags").algorithms
]

# Few enough that sets meet; one empty, one with white space, some beyond ASCII and the BMP.
KNOWN = ["a", "b", "c", "d", "e", "", "two words", "é", "e\u0301", "日本", "🦉", "a" * 40]
UNKNOWN = ["z", "ab", "É", "🦊"]
subscriptions = st.lists(st.sampled_from(KNOWN), max_size=5)  # repeated tags, and no tags at all
events = st.lists(st.sampled_from(KNOWN + UNKNOWN), max_size=9)
int_keys = st.sampled_from([0, 1, 2, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
str_keys = st.sampled_from(["ada", "bob", "", "Zoë", "Zoe\u0308", "東京", "🦉"])


# With MATCHYARD_TEST_DEVICE=gpu, what has kernels for a GPU is tested there.
DEVICE = os.environ.get("MATCHYARD_TEST_DEVICE", "cpu")
_ROOM = {"state.MOST": 8, "builds._MERGE_AT": 4, "builds._SIDE_LEAST": 12, "state._LEAST_NAMES": 10}


def empty(engine: str, *settings: Any, **more: Any) -> Any:
    """An index of an engine, with settings that `my.create` does not take."""
    kinds = {"tags": "TagIndex", "predicates": "PredicateIndex", "twigs": "TwigIndex"}
    found = find_engine(engine)
    name = (settings[0] if settings else None) or found.default
    if DEVICE in find_algorithm(found, name).DEVICES:
        more = {"device": DEVICE, **more}
    return getattr(my, kinds[engine])(*settings, **more)


def build(
    rows: Any,
    keys: Any = None,
    algorithm: str | None = None,
    options: dict[str, Any] | None = None,
    engine: str = "tags",
    **settings: Any,
) -> Any:
    """A consolidated index; without keys, the key of a row is its number."""
    index = empty(engine, algorithm, options, **settings)
    return index.add_many(rows, range(len(rows)) if keys is None else keys).consolidate()


def expected(
    rows: Sequence[Any], keys: Sequence[Any], asked: Sequence[Any], engine: str = "tags"
) -> list[Counter[Any]]:
    """What the definition says: the keys per event, as often as they match."""
    _, language, oracle, *_ = find_engine(engine)
    stored = [(language.parse(row), key) for row, key in zip(rows, keys, strict=True)]
    seen = [language.parse_event(event) for event in asked]
    return [
        Counter(key for subscription, key in stored if oracle.is_match(subscription, event))
        for event in seen
    ]


def staged(
    folder: Any, plan: shards.Plan, *tasks: tuple[Any, Any]
) -> tuple[list[list[shards.Part]], Any, Any]:
    """The rows and keys of several tasks, staged: the parts of each, the vocabulary, the key names."""
    parts = [list(shards.stage(folder, [rows], plan, shards.scratch())) for rows in tasks]
    return parts, *shards.merged(folder, [one for some in parts for one in some], plan)


def counted(matches: Sequence[list[Any]]) -> list[Counter[Any]]:
    """The keys per event without their order."""
    return [Counter(keys) for keys in matches]


@contextmanager
def little_room() -> Iterator[None]:
    """A live index has little room for recent additions, and joins after a few changes."""
    with ExitStack() as stack:
        for name, number in _ROOM.items():
            stack.enter_context(patch(f"matchyard.index.{name}", number))
        yield
