"""The oracle's answers for every pair of an event and a predicate, with fewer calls of the oracle.

Hundreds of millions of pairs would take the oracle hours. These steps save calls:

* Events with the same text are one event.
* A predicate depends only on the attributes that it names: the oracle reads events through
  `_rows.rows`, which drops all keys that lead to none of the names. So the oracle's answer for an
  event is its answer for the *projection* of the event: the event with only the keys that are a
  name, or the beginning of a dotted name.
* Events with the same projection have the same answer. The oracle is called once for each distinct
  projection.

No other property of predicates is used, and no property that an index relies on. Two values are
equal if they have the same type and print alike: 1, 1.0, true and "1" are four values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.engine import find_engine
from matchyard.errors import UsageError
from matchyard.matches import Matches

Codes = NDArray[np.int64]


class Difference(NamedTuple):
    """A pair for which the index and the oracle disagree."""

    event: int
    predicate: int
    n_found: int  # by the index
    is_match: bool  # by the oracle

    def __str__(self) -> str:
        return (
            f"event {self.event}, predicate {self.predicate}: found {self.n_found} times, "
            f"and the oracle says {'match' if self.is_match else 'no match'}"
        )


class Judge:
    """The oracle's answers for JSON events.

    >>> judge = Judge(pa.array(['{"x": 1, "y": 5}', '{"x": 2}', '{"x": 1, "y": 6}']))
    >>> judge.matches(find_engine("predicates").language.parse("x = 1")), judge.n_asked
    (array([0, 2]), 2)
    """

    def __init__(self, events: pa.Array) -> None:
        self._engine = find_engine("predicates")
        distinct = events.dictionary_encode()
        self._event_of: Codes = distinct.indices.to_numpy().astype(np.int64)
        texts = distinct.dictionary.to_pylist()
        self._events = [self._engine.language.parse_event(text) for text in texts]
        self._codes = _code(self._events)
        self._names: frozenset[str] | None = None  # of the projections below
        self._projections: list[dict[str, Any]] = []
        self._projection_of: Codes = np.empty(0, np.int64)
        self.n_asked = 0  # calls of the oracle

    @property
    def n_distinct(self) -> int:
        """The number of distinct texts of events."""
        return len(self._events)

    def matches(self, predicate: Any) -> NDArray[np.int64]:
        """The numbers of the events that a predicate matches, in order."""
        self._project(names_of(predicate))
        is_match = self._engine.oracle.is_match
        said = np.array([is_match(predicate, event) for event in self._projections], bool)
        self.n_asked += len(said)
        return np.flatnonzero(said[self._projection_of[self._event_of]])

    def differences(self, predicates: Sequence[Any], matches: Matches) -> Iterator[Difference]:
        """Every pair for which the matches disagree with the oracle; keys are numbers of predicates."""
        owners = np.repeat(np.arange(len(self._event_of)), np.diff(matches.event_start))
        order = np.argsort(matches.keys, kind="stable")
        ends = np.searchsorted(matches.keys[order], np.arange(len(predicates) + 1))
        if ends[0] != 0 or ends[-1] != len(order):
            raise UsageError(f"keys must be numbers of predicates, from 0 to {len(predicates) - 1}")
        names = [sorted(names_of(predicate)) for predicate in predicates]
        for number in sorted(range(len(predicates)), key=names.__getitem__):  # keeps projections
            here = owners[order[ends[number] : ends[number + 1]]]
            said = self.matches(predicates[number])
            if not np.array_equal(here, said):
                yield from _differences(number, here, said)

    def _project(self, names: frozenset[str]) -> None:
        """Compute the distinct projections on these names, and the projection of each event."""
        if names == self._names:
            return
        keys = [key for key in self._codes if _leads_to(key, names)]
        same: Codes = np.zeros(len(self._events), np.int64)
        for key in keys:
            codes = self._codes[key]
            pairs = pa.array(same * (codes.max() + 1) + codes).dictionary_encode()
            same = pairs.indices.to_numpy().astype(np.int64)
        first = np.unique(same, return_index=True)[1]
        self._projections = [
            {key: value for key, value in self._events[one].items() if key in keys} for one in first
        ]
        self._names, self._projection_of = names, same


def names_of(predicate: Any) -> frozenset[str]:
    """The dotted names of a predicate's attributes."""
    return frozenset(
        constraint.name
        for one in predicate.filters
        for group in (one.holds, *one.fails)
        for constraint in group
    )


def _leads_to(key: str, names: Collection[str]) -> bool:
    return any(name == key or name.startswith(f"{key}.") for name in names)


def _code(events: Sequence[dict[str, Any]]) -> dict[str, Codes]:
    """For each key, a code of its value in each event; 0 if it is absent."""
    codes: dict[str, Codes] = {}
    seen: dict[str, dict[Any, int]] = {}
    for number, event in enumerate(events):
        for key, value in event.items():
            if key not in codes:
                codes[key], seen[key] = np.zeros(len(events), np.int64), {}
            same = value if isinstance(value, str) else (type(value), repr(value))
            codes[key][number] = seen[key].setdefault(same, len(seen[key]) + 1)
    return codes


def _differences(predicate: int, here: Codes, said: Codes) -> Iterator[Difference]:
    events, times = np.unique(here, return_counts=True)
    times_of_event = dict(zip(events.tolist(), times.tolist(), strict=True))
    expected = set(said.tolist())
    for event in sorted(expected | set(times_of_event)):
        n_found, is_match = times_of_event.get(event, 0), event in expected
        if n_found != is_match:
            yield Difference(event, predicate, n_found, is_match)
