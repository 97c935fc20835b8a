"""Common tools for subset matching, instead of the paper's MongoDB.

    list      DuckDB, `list_has_all(event, subscription)`: the operator for subsets
    join      DuckDB, tags in rows: join on the tag, count, compare with the size of the set
    inverted  postings per tag as in a PostgreSQL GIN index, counted with NumPy
    sets      plain Python: every stored frozenset against every event

Each rival is built from the same input as an index (an Arrow list of strings, and keys) and also
returns `Matches`, so that both are timed over the whole job and compared match by match. Sets without
tags are refused: two of the rivals search by tag and cannot find them.
"""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.bench.compare.harness import PASS_S, checksum
from matchyard.errors import MatchyardError, UsageError
from matchyard.matches import Matches, Part

# Events per question: the same for all rivals and any number of shards.
BATCH = 256
_DENSE = 16  # from 1/16 of all sets on, counting them all is cheaper than sorting


class Disagreement(MatchyardError):
    """A rival that found other matches than the index."""


class Rival(Protocol):
    """The interface of all rivals."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int) -> None: ...

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""


class List:
    """DuckDB: one predicate over all pairs of event and subscription."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        _refuse_empty(subscriptions)
        self._database = connect(threads)
        _store(self._database, "stored", pa.table({"key": keys, "tags": subscriptions}))

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""
        pairs = _ask(
            self._database,
            "select event, key from events, stored where list_has_all(events.tags, stored.tags)",
            pa.table({"event": np.arange(len(events)), "tags": events}),
        )
        return _by_event(pairs, len(events))


class Join:
    """DuckDB: a set matches if the number of its tags in the event is its size."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        _refuse_empty(subscriptions)
        self._database = connect(threads)
        n_tags = pc.list_value_length(subscriptions)
        numbers = np.arange(len(keys))
        _store(self._database, "sets", pa.table({"number": numbers, "key": keys, "n_tags": n_tags}))
        _store(self._database, "tags", _exploded("number", subscriptions))

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""
        pairs = _ask(
            self._database,
            "select event, key from (select event, number, count(*) as n_met from events "
            "join tags using (tag) group by event, number) "
            "join sets using (number) where n_met = n_tags",
            _exploded("event", events),
        )
        return _by_event(pairs, len(events))


class Inverted:
    """Postings per tag, as PostgreSQL's GIN keeps them; one event after the other."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        _refuse_empty(subscriptions)
        encoded = subscriptions.flatten().dictionary_encode()
        tags = encoded.indices.to_numpy()
        self._keys = np.asarray(keys, np.int64)
        self._n_tags: NDArray[np.int32] = pc.list_value_length(subscriptions).to_numpy()
        owners = np.repeat(np.arange(len(keys), dtype=np.int32), self._n_tags)
        self._postings: NDArray[np.int32] = owners[np.argsort(tags, kind="stable")]
        ends = np.cumsum(np.bincount(tags, minlength=len(encoded.dictionary))).tolist()
        names = encoded.dictionary.to_pylist()
        self._range = {name: slice(*ends) for name, ends in zip(names, zip([0, *ends], ends))}

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""
        keys_of_events = [self._match_one(event) for event in events.to_pylist()]
        start = np.zeros(len(keys_of_events) + 1, np.int64)
        np.cumsum([len(keys) for keys in keys_of_events], out=start[1:])
        return Matches([Part(start, np.concatenate([np.empty(0, np.int64), *keys_of_events]))])

    def _match_one(self, event: list[str]) -> NDArray[np.int64]:
        known = [self._postings[self._range[tag]] for tag in event if tag in self._range]
        if not known:
            return np.empty(0, np.int64)
        met = np.concatenate(known)
        if _DENSE * len(met) > len(self._n_tags):
            counts = np.bincount(met, minlength=len(self._n_tags))
            chosen: NDArray[Any] = np.flatnonzero(counts == self._n_tags)
            return self._keys.take(chosen)
        met.sort()
        first = np.flatnonzero(np.concatenate([[True], met[1:] != met[:-1]]))
        counts = np.diff(np.append(first, len(met)))
        sets = met[first]
        chosen = sets[counts == self._n_tags[sets]]
        return self._keys.take(chosen)


class Sets:
    """Plain Python: a subset test for each set."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        _refuse_empty(subscriptions)
        self._sets = list(zip(map(frozenset, subscriptions.to_pylist()), keys.tolist()))

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""
        keys_of_events = []
        for tags in events.to_pylist():
            event = frozenset(tags)
            keys_of_events.append([key for wanted, key in self._sets if wanted <= event])
        start = np.zeros(len(keys_of_events) + 1, np.int64)
        np.cumsum([len(keys) for keys in keys_of_events], out=start[1:])
        return Matches(
            [Part(start, np.array([key for keys in keys_of_events for key in keys], np.int64))]
        )


class Shards:
    """A rival with its subscriptions split into shards, a thread each; all shards get all events."""

    def __init__(
        self, kind: type[Rival], subscriptions: pa.Array, keys: NDArray[np.int64], n_shards: int
    ) -> None:
        places = [np.arange(shard, len(keys), n_shards) for shard in range(n_shards)]
        self._shards = [kind(subscriptions.take(pa.array(at)), keys[at], 1) for at in places]
        self._pool = ThreadPoolExecutor(n_shards, thread_name_prefix="shard")

    def match(self, events: pa.Array) -> Matches:
        """The keys per event, of all shards together."""
        matches = list(self._pool.map(lambda shard: shard.match(events), self._shards))
        numbers = np.arange(len(events))
        owners = np.concatenate([np.repeat(numbers, np.diff(part.event_start)) for part in matches])
        keys = np.concatenate([part.keys for part in matches])
        return _by_event({"event": owners, "key": keys}, len(events))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


RIVALS: dict[str, type[Rival]] = {
    "DuckDB list_has_all": List,
    "DuckDB counting join": Join,
    "inverted index (NumPy)": Inverted,
    "Python sets": Sets,
}


class Timed(NamedTuple):
    """The speed of a rival; its matches equal those of the index."""

    events_per_s: float
    events: int  # per pass


def race(
    rival: Any, index: Any, source: Any, pass_s: float = PASS_S, passes: int = 3, fewest: int = 4
) -> Timed:
    """Time passes of about `pass_s` of a rival; the median counts.

    Every pass is compared with the index, match by match: a difference raises a Disagreement.
    """
    n_events, seconds = fewest, [_pass(rival, index, source, fewest)]
    while seconds[-1] < pass_s / 2:
        n_events *= min(16, max(2, round(0.75 * pass_s / seconds[-1])))
        seconds = [_pass(rival, index, source, n_events)]
    seconds += [_pass(rival, index, source, n_events) for _ in range(passes - 1)]
    return Timed(n_events / statistics.median(seconds), n_events)


def _pass(rival: Any, index: Any, source: Any, n_events: int) -> float:
    """The seconds for a number of events, in batches of BATCH without pauses."""
    batches = [
        source.events(min(BATCH, n_events - first), start=first)
        for first in range(0, n_events, BATCH)
    ]
    rival.match(batches[0])  # fill the caches again
    start = time.perf_counter()
    answers = [rival.match(events) for events in batches]
    seconds = time.perf_counter() - start
    for events, answer in zip(batches, answers, strict=True):
        check(answer, index.match(events))
    return seconds


def check(matches: Matches, expected: Matches) -> None:
    """Raise a Disagreement unless both hold the same keys for every event."""
    if checksum(matches) == checksum(expected):
        return
    for number, (here, there) in enumerate(zip(matches, expected, strict=True)):
        if sorted(here) != sorted(there):
            raise Disagreement(
                f"event {number}: the rival found {len(here)} keys, the index {len(there)}; "
                f"not in both: {sorted(set(here) ^ set(there))[:3]}"
            )
    raise Disagreement("the rival found other matches than the index")


def _refuse_empty(subscriptions: pa.Array) -> None:
    if pc.min(pc.list_value_length(subscriptions)).as_py() == 0:
        raise UsageError("rivals do not take sets without tags")


def connect(threads: int) -> Any:
    """A database in memory."""
    try:
        import duckdb
    except ImportError:
        raise UsageError(
            "this rival needs DuckDB, which is in the development dependencies: `make install`, "
            "or pip install duckdb"
        ) from None
    return duckdb.connect(":memory:", config={"threads": threads})


def _store(database: Any, name: str, rows: pa.Table) -> None:
    database.register("given", rows)
    database.execute(f"create table {name} as select * from given")
    database.unregister("given")


def _ask(database: Any, query: str, events: pa.Table) -> dict[str, NDArray[np.int64]]:
    database.register("events", events)
    columns: dict[str, NDArray[np.int64]] = database.execute(query).fetchnumpy()
    database.unregister("events")
    return columns


def _exploded(number: str, sets: pa.Array) -> pa.Table:
    """A row per tag, with the number of its set."""
    return pa.table({number: pc.list_parent_indices(sets), "tag": sets.flatten()})


def _by_event(pairs: dict[str, NDArray[np.int64]], n_events: int) -> Matches:
    events: NDArray[np.int64] = np.asarray(pairs["event"])
    order = np.argsort(events, kind="stable")
    start = np.zeros(n_events + 1, np.int64)
    np.cumsum(np.bincount(events, minlength=n_events), out=start[1:])
    return Matches([Part(start, np.asarray(pairs["key"])[order])])
