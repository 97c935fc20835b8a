"""Common tools for subset matching, instead of the paper's MongoDB.

    list      DuckDB, `list_has_all(event, subscription)`: the operator for subsets
    join      DuckDB, tags in rows: join on the tag, count, compare with the size of the set
    gin       PostgreSQL, `text[]` with a GIN index and `subscription <@ event`
    sets      plain Python: every stored frozenset against every event

Each rival is built from the same input as an index (an Arrow list of strings, and keys) and also
returns `Matches`, so that both are timed over the whole job and compared match by match. Sets without
tags are refused: DuckDB's join searches by tag and cannot find them.
"""

from __future__ import annotations

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.bench.compare.harness import PASS_S, checksum
from matchyard.bench.rivals.postgres import Server, missing
from matchyard.errors import MatchyardError, UsageError
from matchyard.matches import Matches, Part

# Events per question: the same for all rivals and any number of shards.
BATCH = 256


class Disagreement(MatchyardError):
    """A rival that found other matches than the index."""


class Rival(Protocol):
    """The interface of all rivals."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int) -> None: ...

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""

    def close(self) -> None:
        """Free what it holds."""


class _InDuckDB:
    """A rival whose subscriptions are in a database in memory."""

    def __init__(self, subscriptions: pa.Array, threads: int) -> None:
        _refuse_empty(subscriptions)
        self._database = connect(threads)

    def close(self) -> None:
        """Free the database."""
        self._database.close()


class List(_InDuckDB):
    """DuckDB: one predicate over all pairs of event and subscription."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        super().__init__(subscriptions, threads)
        _store(self._database, "stored", pa.table({"key": keys, "tags": subscriptions}))

    def match(self, events: pa.Array) -> Matches:
        """The keys per event."""
        pairs = _ask(
            self._database,
            "select event, key from events, stored where list_has_all(events.tags, stored.tags)",
            pa.table({"event": np.arange(len(events)), "tags": events}),
        )
        return _by_event(pairs, len(events))


class Join(_InDuckDB):
    """DuckDB: a set matches if the number of its tags in the event is its size."""

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        super().__init__(subscriptions, threads)
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


class Gin:
    """PostgreSQL: `text[]` with a GIN index, a connection per thread."""

    _PAIRS = "select event, key from asked, stored where stored.tags <@ asked.tags"

    def __init__(self, subscriptions: pa.Array, keys: NDArray[np.int64], threads: int = 1) -> None:
        _refuse_empty(subscriptions)
        self._server = Server()
        self._connections = [self._server.connect() for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="postgres")
        with self._connections[0].cursor() as cursor:
            table = pa.table({"key": keys, "tags": subscriptions})
            cursor.adbc_ingest("stored", table, mode="create")
            for statement in ("create index on stored using gin (tags)", "vacuum analyze stored"):
                cursor.execute(statement)

    def match(self, events: pa.Array) -> Matches:
        """The keys per event; each connection gets a run of the events."""
        n_runs = len(self._connections)
        ends = [len(events) * number // n_runs for number in range(n_runs + 1)]
        found = list(
            self._pool.map(self._ask, self._connections, [events] * n_runs, ends, ends[1:])
        )
        pairs = pa.concat_tables(found)
        return _by_event({name: pairs[name].to_numpy() for name in ("event", "key")}, len(events))

    def _ask(self, connection: Any, events: pa.Array, start: int, stop: int) -> pa.Table:
        asked = pa.table(
            {"event": np.arange(start, stop), "tags": events.slice(start, stop - start)}
        )
        with connection.cursor() as cursor:
            cursor.adbc_ingest("asked", asked, mode="create", temporary=True)
            pairs = cursor.execute(self._PAIRS).fetch_arrow_table()
            cursor.execute("drop table asked")
        return pairs

    def n_bytes(self) -> int:
        """The size of the table and its index."""
        with self._connections[0].cursor() as cursor:
            return int(cursor.execute("select pg_total_relation_size('stored')").fetchone()[0])

    def plan(self) -> str:
        """The way in which PostgreSQL answers."""
        with self._connections[0].cursor() as cursor:
            cursor.execute("create temporary table asked (event bigint, tags text[])")
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            lines = cursor.execute(f"explain {self._PAIRS}").fetchall()
            cursor.execute("drop table asked")
        return "\n".join(line for (line,) in lines)

    def close(self) -> None:
        """End the connections, the threads and the server."""
        for connection in self._connections:
            connection.close()
        self._pool.shutdown()
        self._server.close()


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

    def close(self) -> None:
        """Free the sets."""
        self._sets = []


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
        """End the threads and the shards."""
        self._pool.shutdown()
        for shard in self._shards:
            shard.close()


RIVALS: dict[str, type[Rival]] = {
    "DuckDB list_has_all": List,
    "DuckDB counting join": Join,
    "PostgreSQL GIN": Gin,
    "Python sets": Sets,
}


def usable_rivals() -> dict[str, type[Rival]]:
    """The rivals that this machine can run; says on standard error which ones it cannot."""
    lack = missing()
    if lack is None:
        return RIVALS
    print(f"PostgreSQL is left out: {lack}", file=sys.stderr)
    return {name: kind for name, kind in RIVALS.items() if kind is not Gin}


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
