"""Algorithms for predicates while one thing varies: what the figures of HEM and CCM are made of.

The settings of a figure say what is done:

    workload    its name, and in `parameters` what differs from its defaults
    varies      a parameter of the workload; "size"; or two parameters, the fewest and most of
                something, which lie one to either side of a value
    values      of it; of "size", shares of the figure's size, `per` so many subscriptions
    grows       true: the size is the figure's at the first value, and in proportion at others
    algorithms  by name
    verb        "match" or "match_unique"
    events      how many a pass has; else as many as it has time for, so that where an event has
                very many matches, a fast algorithm is slowed down by fresh memory for them
    recorded    settings that differ for real data, its workload first: it has a panel of its own
                beside the other, where MATCHYARD_DATA says that there is real data

One thread matches, as in the papers, and encoding is left out: events come to them as numbers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np

import matchyard as my
from matchyard.bench import steps
from matchyard.bench.compare import harness
from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row
from matchyard.engine import find_algorithm, find_engine


class Point(NamedTuple):
    """One place on the x axis."""

    x: float
    size: int
    parameters: dict[str, Any]


def points(figure: Figure) -> Iterator[Point]:
    """The places that the settings of a figure name."""
    chosen = figure.settings
    varies, values = chosen["varies"], chosen["values"]
    for value in values:
        size, parameters = figure.size, dict(chosen.get("parameters", {}))
        if varies == "size":
            size = max(1, round(value * size))
            yield Point(size / chosen.get("per", 1), size, parameters)
            continue
        if isinstance(varies, str):
            parameters[varies] = value
        else:
            fewest = max(1, value - 1)
            parameters |= {varies[0]: fewest, varies[1]: 2 * value - fewest}
        size = size * value // values[0] if chosen.get("grows") else size
        yield Point(value, size, parameters)


def panels(figure: Figure) -> Iterator[tuple[Row, Figure]]:
    """What rows say of their panel, if there is one, and the figure with the settings for it."""
    chosen = figure.settings
    if "recorded" not in chosen:
        yield {}, figure
        return
    yield {"panel": chosen["workload"]}, figure
    if os.environ.get("MATCHYARD_DATA"):
        recorded = chosen | {"parameters": {}} | chosen["recorded"]
        yield {"panel": recorded["workload"]}, figure._replace(settings=recorded)


def _in_panels(measure: Callable[[Figure], Iterator[Row]]) -> Callable[[Figure], Iterator[Row]]:
    """Measure each panel of a figure."""

    @wraps(measure)
    def measured(figure: Figure) -> Iterator[Row]:
        for panel, its in panels(figure):
            for row in measure(its):
                yield row | panel

    return measured


@_in_panels
def matching_times(figure: Figure) -> Iterator[Row]:
    """Microseconds per event by algorithm and place."""
    for x, found in _measured(figure):
        yield {"series": found.algorithm, "x": x, "y": found.match_us,
               "events": found.events, "matches_per_event": found.matches / found.events,
               "candidates_per_event": (found.candidates or 0) / found.events}  # fmt: skip


@_in_panels
def memory(figure: Figure) -> Iterator[Row]:
    """Megabytes of each index, keys left out."""
    for point in points(figure):
        source = _source(figure, point)
        for algorithm in figure.settings["algorithms"]:
            index = my.PredicateIndex(algorithm)
            harness.build(index, source)
            yield {"series": algorithm, "x": point.x, "y": megabytes(index)}


def megabytes(index: Any) -> float:
    """What an index takes without its keys."""
    info = index.info()
    return float(info["index_bytes"] - info["key_bytes"]) / 1e6


def _measured(figure: Figure) -> Iterator[tuple[float, harness.Result]]:
    chosen = figure.settings
    for point in points(figure):
        source = _source(figure, point)
        indexes = {}
        for algorithm in chosen["algorithms"]:
            indexes[algorithm] = my.PredicateIndex(algorithm, device=figure.device)
            harness.build(indexes[algorithm], source)
        verb, n_events = chosen.get("verb", "match"), chosen.get("events")
        best = steps.best_of_rounds(
            {
                name: partial(timed, index, source, 0.0, verb, passes=1, n_events=n_events)
                for name, index in indexes.items()
            }
        )
        for found in best.values():
            yield point.x, found


def _source(figure: Figure, point: Point) -> Any:
    return my.workload("predicates", figure.settings["workload"], point.size, 1, point.parameters)


def built(
    source: Any, algorithm: str, options: dict[str, Any] | None = None, device: str = "cpu"
) -> tuple[Any, float]:
    """An index over a workload and how long that took; kernels are compiled already."""
    index = my.PredicateIndex(algorithm, options, device)
    harness.warm_up(index, source, 1)
    return index, harness.build(index, source)


def timed(
    index: Any,
    source: Any,
    build_s: float,
    verb: str = "match",
    passes: int | None = None,
    n_events: int | None = None,
) -> harness.Result:
    """What one thread takes for the events of the workload."""
    result, _ = harness.measure(
        index, source, index.algorithm, build_s, 1, index.device,
        n_events or steps.n_events(index), passes or steps.PASSES, verb, steps.PASS_S,
    )  # fmt: skip
    return result


def mark(index: Any, events: Any) -> tuple[int, float]:
    """How many marks an index of `hem` makes one by one for the events, and in how many seconds."""
    (segment,) = index.segments()
    (table,) = segment.tables
    settings = segment.settings
    batch = segment.encode(settings.engine.encoder.column(events, settings.input_options))
    start = time.perf_counter()
    n_marks = settings.algorithm.marks(table, batch, settings.options)
    return n_marks, time.perf_counter() - start


@_in_panels
def insertion_times(figure: Figure) -> Iterator[Row]:
    """Microseconds to insert a subscription into the table of as many others as the figure has."""
    engine = find_engine("predicates")
    for point in points(figure):
        more = max(1, point.size // 4)
        source = my.workload("predicates", figure.settings["workload"], point.size + more, 1,
                             point.parameters)  # fmt: skip
        column = engine.encoder.subscription_column(
            source.subscriptions(0, source.size)[0], engine.encoder.Options()
        )
        staging = engine.encoder.Staging()
        staging.add(column, np.arange(source.size))
        filters, vocabulary, keys = staging.take()
        for name in figure.settings["algorithms"]:
            algorithm: Any = find_algorithm(engine, name)
            seconds = min(
                _insert(algorithm, filters, vocabulary, keys, more) for _ in range(steps.PASSES)
            )
            yield {"series": name, "x": point.x, "y": 1e6 * seconds / (more - more // 2)}


def _insert(algorithm: Any, filters: Any, vocabulary: Any, keys: Any, more: int) -> float:
    """Seconds for the later half of the last rows; the first half makes room and compiles."""
    options = algorithm.Options()
    first, last = len(keys) - more, len(keys) - (more - more // 2)
    table = algorithm.compile(_rows(filters, 0, first), keys[:first], vocabulary, options)
    table = algorithm.insert(table, _rows(filters, first, last), keys[first:last], options)
    some = _rows(filters, last, len(keys))
    start = time.perf_counter()
    algorithm.insert(table, some, keys[last:], options)
    return time.perf_counter() - start


def _rows(filters: Any, start: int, stop: int) -> Any:
    """Some filters in arrays of their own, as `insert` wants them."""
    numbers = np.arange(filters.n_rows)
    keep = find_engine("predicates").encoder.keep
    return keep(filters, (numbers >= start) & (numbers < stop))
