"""What the oracle says about every pair of an event and a predicate, where these are too many to ask.

Hundreds of millions of pairs would take the oracle hours. It is asked less often, about the same:

* Events that are the same text are one event.
* A predicate looks at nothing but the attributes that it names: `_rows.rows`, through which the
  oracle sees all of an event, leaves out every key that leads to none of the names, as if it were
  not there. So the oracle says the same about an event and about its *projection*, the event with
  only the keys that are a name, or the beginning of a dotted one.
* Events with the same projection get the same answer. The oracle is asked once about each distinct
  projection, and all events that have it get what it said.

No other property of predicates is used; above all, nothing that an index relies on. Values are the
same here when they are of the same type and print alike: 1, 1.0, true and "1" are four.
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
    """A pair for which an index says something else than the oracle."""

    event: int
    predicate: int
    n_found: int  # how often the index found it
    is_match: bool  # what the oracle says

    def __str__(self) -> str:
        return (
            f"event {self.event}, predicate {self.predicate}: found {self.n_found} times, "
            f"and the oracle says {'match' if self.is_match else 'no match'}"
        )


class Judge:
    """Answers about some events, which are JSON.

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
        self.n_asked = 0  # how often the oracle was

    @property
    def n_distinct(self) -> int:
        """Events that are not the same text."""
        return len(self._events)

    def matches(self, predicate: Any) -> NDArray[np.int64]:
        """The numbers of the events that a predicate matches, in order."""
        self._project(names_of(predicate))
        is_match = self._engine.oracle.is_match
        said = np.array([is_match(predicate, event) for event in self._projections], bool)
        self.n_asked += len(said)
        return np.flatnonzero(said[self._projection_of[self._event_of]])

    def differences(self, predicates: Sequence[Any], found: Matches) -> Iterator[Difference]:
        """Every pair for which `found`, whose keys are numbers of predicates, is not as the oracle
        says."""
        owners = np.repeat(np.arange(len(self._event_of)), np.diff(found.event_start))
        order = np.argsort(found.keys, kind="stable")
        ends = np.searchsorted(found.keys[order], np.arange(len(predicates) + 1))
        if ends[0] != 0 or ends[-1] != len(order):
            raise UsageError(f"keys must be numbers of predicates, from 0 to {len(predicates) - 1}")
        names = [sorted(names_of(predicate)) for predicate in predicates]
        for number in sorted(range(len(predicates)), key=names.__getitem__):  # projections are kept
            here = owners[order[ends[number] : ends[number + 1]]]
            said = self.matches(predicates[number])
            if not np.array_equal(here, said):
                yield from _differences(number, here, said)

    def _project(self, names: frozenset[str]) -> None:
        """The distinct projections on these names, and which of them each distinct event has."""
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
    """The attributes that a predicate asks for, by their dotted names."""
    return frozenset(
        constraint.name
        for one in predicate.filters
        for group in (one.holds, *one.fails)
        for constraint in group
    )


def _leads_to(key: str, names: Collection[str]) -> bool:
    return any(name == key or name.startswith(f"{key}.") for name in names)


def _code(events: Sequence[dict[str, Any]]) -> dict[str, Codes]:
    """Per key of the events a number of its value in each of them, 0 where it is absent."""
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
    found = dict(zip(events.tolist(), times.tolist(), strict=True))
    expected = set(said.tolist())
    for event in sorted(expected | set(found)):
        n_found, is_match = found.get(event, 0), event in expected
        if n_found != is_match:
            yield Difference(event, predicate, n_found, is_match)
