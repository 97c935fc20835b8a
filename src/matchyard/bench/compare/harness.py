"""Run algorithms on one workload in one run, and check that they find the same matches.

The clock covers the whole job: from a user's events (an Arrow column) to the keys of every event. JIT
compilation and the generation of the workload are left out, and building is reported apart. A slow
algorithm gets fewer events than a fast one; all are checked on the same events. An algorithm that
refuses the workload's subscriptions is left out. An approximate algorithm may find more matches, but
must miss none.
"""

from __future__ import annotations

import copy
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.bench.compare.forms import FORMS, given_as, taken_from
from matchyard.engine import abilities_of, find_algorithm, find_engine

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
STEP = 4096  # a pass of a fast algorithm has a multiple of this many events…
_SLOW_STEP = 256  # …and a pass of a slow one a multiple of this
_CHECKED = {"tags": STEP, "predicates": _SLOW_STEP, "twigs": 64}  # events, by engine
PASS_S = 1.0  # target duration of one timed pass…
_MOST_EVENTS = 2_000_000
_MOST_PAIRS = 40_000_000  # …and the most pairs of its result, to limit memory
# Default numbers of subscriptions: those of the papers, or as many as fit into a minute or two.
_SIZES = {"ccm": 250_000, "ccm-zipf": 250_000, "json-eq": 100_000, "json-range": 100_000,
          "kdd": 100_000, "dblp": 2_000, "dtd": 2_000, "docbook": 2_000}  # fmt: skip
_SIZE = 1_000_000


class Result(NamedTuple):
    """One algorithm on one workload."""

    engine: str
    workload: str
    algorithm: str
    device: str
    threads: int
    subscriptions: int
    events: int  # per timed pass
    build_s: float  # from Arrow columns to an index ready to match
    events_per_s: float  # median over the passes
    pairs_per_s: float
    matches: int  # in one pass
    candidates: int | None  # None: not known, as in Spark
    index_bytes: int  # without keys
    checksum: str  # of the matches of the first `checked` events
    checked: int
    encode_share: float | None  # of the time of all threads; None: not known
    spread: float  # (slowest - fastest pass) / median
    passes: int
    arrow_pairs_per_s: float  # the same with the result as an Arrow table of (event, key)
    form: str  # of the events: an Arrow column, Python values, lines of JSON, or Parquet files
    match_us: float | None = None  # of a thread per event, without encoding; None: not known
    false_share: float | None = None  # of the pairs found on checked events; None: it is exact
    # Of twigs only:
    xml_bytes: int | None = None  # of the documents of a pass
    xml_tags: int | None = None  # opening and closing tags of these documents
    first_s: float | None = None  # of the first pass, by a fresh index
    document_bytes: int | None = None  # as requested; None: the size of the workload

    @property
    def event_us(self) -> float:
        """Microseconds of a thread per event, the whole job."""
        return 1e6 * self.threads / self.events_per_s


def compare(
    engine: str = "tags",
    workload: str | None = None,
    size: int | None = None,
    algorithms: Sequence[str] = (),
    threads: int = 1,
    device: str = "cpu",
    seed: int = 1,
    n_events: int | None = None,
    passes: int = 5,
    options: dict[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda message: None,
    form: str = "arrow",
    note: Callable[[str], None] = lambda message: None,
) -> Iterator[Result]:
    """Yield a result per algorithm, approximate ones last. The defaults are the engine's first workload
    in its own size, and the engine's default algorithm. `note` gets a text for each algorithm that is
    left out."""
    if form not in FORMS:
        raise my.UsageError(f"no form {form!r} of events; expected one of: {', '.join(FORMS)}")
    name = workload or next(iter(find_engine(engine).workload.MODELS))
    size = size or size_of(name)
    source = my.workload(engine, workload, size, seed, parameters)
    exact: Pairs | None = None
    chosen = list(algorithms or my.algorithms(engine)[:1])
    for algorithm in sorted(chosen, key=lambda name: is_approximate(engine, name)):
        progress(f"building {algorithm} over {source.size:,} subscriptions")
        index = my.create(engine, algorithm, options, device, threads=threads)
        try:
            warm_up(index, source, threads)
            build_s = build(index, source)
        except my.UsageError as error:
            if len(chosen) == 1 or not is_choosy(engine, algorithm):
                raise
            note(f"{algorithm} is left out: {error}")
            continue
        progress(f"matching with {algorithm}")
        result, pairs = measure(
            index, source, algorithm, build_s, threads, device, n_events, passes, form=form
        )
        if not is_approximate(engine, algorithm):
            exact = exact or pairs
        elif exact is not None:
            result = _without_false(result, pairs, exact)
        yield result
        del index
        gc.collect()


def size_of(workload: str) -> int:
    """The default number of subscriptions of a workload."""
    return _SIZES.get(workload, _SIZE)


def default_workload(engine: str) -> str:
    """The default workload of an engine."""
    return str(next(iter(find_engine(engine).workload.MODELS)))


def is_choosy(engine: str, algorithm: str) -> bool:
    """True if the algorithm refuses some subscriptions."""
    return abilities_of(find_algorithm(find_engine(engine), algorithm)).accept is not None


def is_approximate(engine: str, algorithm: str) -> bool:
    """True if the algorithm also finds false matches, at a stated rate."""
    return abilities_of(find_algorithm(find_engine(engine), algorithm)).stated_rate is not None


def _without_false(result: Result, approximate: Pairs, exact: Pairs) -> Result:
    """The result of an approximate algorithm, with a checksum that leaves out false matches."""
    pairs = pa.table({"event": approximate[0], "key": approximate[1]})
    known = pa.table({"event": exact[0], "key": exact[1]})
    events, keys = (
        column.to_numpy() for column in pairs.join(known, ["event", "key"], join_type="left semi")
    )
    n_found = len(approximate[0])
    return result._replace(
        checksum=checksum_of_pairs(events, keys), false_share=1 - len(events) / max(1, n_found)
    )


def warm_up(index: Any, source: Any, threads: int) -> None:
    """Compile every kernel on a tiny index of the same kind."""
    engine, source = index.info()["engine"], _with_short_documents(source)
    tiny = my.create(engine, index.algorithm, index.options, index.device)
    tiny.add_many(*source.subscriptions(0, min(200, source.size))).consolidate()
    tiny.match(source.events(min(STEP, 4 * _CHECKED[engine]) + 1), threads).to_arrow()
    tiny.match_unique(source.events(10))


def _with_short_documents(source: Any) -> Any:
    """The workload; if its documents have a chosen size, a copy with short documents."""
    if not hasattr(getattr(source, "model", None), "document_bytes"):
        return source
    short = copy.copy(source)
    short.model = source.model._replace(document_bytes=min(2_000, source.model.document_bytes))
    return short


def build(index: Any, source: Any) -> float:
    """Add the workload chunk by chunk and consolidate; the seconds, without its generation."""
    seconds = 0.0
    for subscriptions, keys in source.chunks():
        start = time.perf_counter()
        index.add_many(subscriptions, keys)
        seconds += time.perf_counter() - start
    del subscriptions, keys
    start = time.perf_counter()
    index.consolidate()
    return seconds + time.perf_counter() - start


def measure(
    index: Any,
    source: Any,
    algorithm: str,
    build_s: float,
    threads: int,
    device: str,
    n_events: int | None,
    passes: int,
    verb: str = "match",
    pass_s: float | None = None,
    form: str = "arrow",
) -> tuple[Result, Pairs]:
    """Time passes over fresh events. The first `checked` events are the same for all algorithms;
    their matches come with the result."""
    column = index.event_column

    def give(events: Any) -> Any:
        return given_as(form, events, column)

    def match(events: Any, threads: int) -> Any:
        return getattr(index, verb)(taken_from(form, events, column), threads)

    info = index.info()
    n_checked = min(STEP, _CHECKED[info["engine"]], n_events or STEP)
    first = match(give(source.events(n_checked)), threads)
    n_events = n_events or affordable(match, source, give, threads, pass_s or PASS_S)
    seconds, arrow_seconds, encode_s = [], [], []
    for number in range(passes):
        events = give(source.events(n_events, start=number * n_events))
        gc.collect()
        with machine.alone():
            start = time.perf_counter()
            matches = match(events, threads)
            found_s = time.perf_counter() - start
            matches.to_arrays()
            seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            matches.to_arrow()
            arrow_seconds.append(found_s + time.perf_counter() - start)
        encode_s.append(matches.encode_s)
        work = matches.work
        del matches
    median = statistics.median(seconds)
    matching = statistics.median(threads * s - e for s, e in zip(seconds, encode_s))
    result = Result(
        info["engine"], source.name, algorithm, device, threads, source.size, n_events, build_s,
        n_events / median, work.matches / median, work.matches, work.candidates,
        info["index_bytes"] - info["key_bytes"], checksum(first), n_checked,
        sum(encode_s) / (sum(seconds) * threads), (max(seconds) - min(seconds)) / median, passes,
        work.matches / statistics.median(arrow_seconds), form,
        1e6 * matching / n_events,
    )  # fmt: skip
    return result, pairs_of(first)


def affordable(
    match: Callable[..., Any],
    source: Any,
    give: Callable[[Any], Any],
    threads: int,
    pass_s: float,
) -> int:
    """The number of events for a pass of about that duration."""
    n_events = small = min(STEP, _SLOW_STEP) * threads
    while True:
        events = give(source.events(n_events, start=1 << 40))
        start = time.perf_counter()
        matches = match(events, threads)
        seconds = time.perf_counter() - start
        if seconds > pass_s / 8 or n_events >= 2 * STEP:
            break
        n_events *= 4
    by_time = int(pass_s / seconds * n_events)
    by_pairs = int(_MOST_PAIRS / max(1, matches.work.matches) * n_events)
    wanted = min(by_time, by_pairs, _MOST_EVENTS)
    step = STEP * threads if wanted >= STEP * threads else small
    return max(step, wanted // step * step)


def pairs_of(matches: Any) -> Pairs:
    """The numbers of events and the matching keys, pair by pair."""
    start = matches.event_start
    return np.repeat(np.arange(len(start) - 1), np.diff(start)), matches.keys


def checksum(matches: Any) -> str:
    """A checksum of the pairs, independent of their order."""
    return checksum_of_pairs(*pairs_of(matches))


def checksum_of_pairs(events: NDArray[np.int64], keys: NDArray[np.int64]) -> str:
    """The same for pairs of an event's number and a key; a repeated pair counts twice."""
    with np.errstate(over="ignore"):
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= (events.astype(np.uint64) + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        return f"{int(mixed.sum(dtype=np.uint64)):016x}"
