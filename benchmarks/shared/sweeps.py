"""Sweeps over one parameter with algorithms for predicates: the figures of HEM and CCM.

The settings of a figure:

    workload    its name; `parameters` has the values that differ from its defaults
    varies      a parameter of the workload; "size"; or two parameters, a minimum and a maximum,
                which are set to one below and one above a value
    values      of the varied parameter; for "size", shares of the figure's size
    per         the unit of the x axis for "size", in subscriptions
    grows       true: the size is the figure's at the first value, and in proportion at others
    algorithms  by name
    verb        "match" or "match_unique"
    events      per pass; by default as many as the time allows. With very many matches per event,
                such a long pass slows a fast algorithm down: it needs fresh memory for them
    recorded    settings that differ for real data, its workload first; it gets a panel of its own
                if MATCHYARD_DATA names the data

One thread matches, and encoding is left out, as in the papers, where events are numbers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np

import matchyard as my
from benchmarks.shared import steps
from matchyard.bench.compare import harness
from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row
from matchyard.engine import find_algorithm, find_engine


class Point(NamedTuple):
    """One value on the x axis."""

    x: float
    size: int
    parameters: dict[str, Any]


def points(figure: Figure) -> Iterator[Point]:
    """The points of a figure, from its settings."""
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
    """The fields that name a panel, if there are panels, and the figure with its settings."""
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
    """Microseconds per event by algorithm and value of x."""
    for x, result in _measured(figure):
        yield {"series": result.algorithm, "x": x, "y": result.match_us,
               "events": result.events, "matches_per_event": result.matches / result.events,
               "candidates_per_event": (result.candidates or 0) / result.events}  # fmt: skip


@_in_panels
def memory(figure: Figure) -> Iterator[Row]:
    """Megabytes of each index, without keys."""
    for point in points(figure):
        source = _source(figure, point)
        for algorithm in figure.settings["algorithms"]:
            index = my.PredicateIndex(algorithm)
            harness.build(index, source)
            yield {"series": algorithm, "x": point.x, "y": megabytes(index)}


def megabytes(index: Any) -> float:
    """The megabytes of an index, without keys."""
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
        for result in best.values():
            yield point.x, result


def _source(figure: Figure, point: Point) -> Any:
    return my.workload("predicates", figure.settings["workload"], point.size, 1, point.parameters)


def built(
    source: Any, algorithm: str, options: dict[str, Any] | None = None, device: str = "cpu"
) -> tuple[Any, float]:
    """An index over a workload and the seconds of its build, with compiled kernels."""
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
    """The result of one thread on the events of the workload."""
    result, _ = harness.measure(
        index, source, index.algorithm, build_s, 1, index.device,
        n_events or steps.n_events(index), passes or steps.PASSES, verb, steps.PASS_S,
    )  # fmt: skip
    return result


def mark(index: Any, events: Any) -> tuple[int, float]:
    """The marks that an index of `hem` makes one by one for the events, and the seconds."""
    (segment,) = index.segments()
    (table,) = segment.tables
    settings = segment.settings
    batch = segment.encode(settings.engine.encoder.column(events, settings.input_options))
    start = time.perf_counter()
    n_marks = settings.algorithm.marks(table, batch, settings.options)
    return n_marks, time.perf_counter() - start


@_in_panels
def insertion_times(figure: Figure) -> Iterator[Row]:
    """Microseconds to insert a subscription into a table of the figure's size."""
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
    """The seconds for the second half of the last rows; the first half allocates and compiles."""
    options = algorithm.Options()
    first, last = len(keys) - more, len(keys) - (more - more // 2)
    table = algorithm.compile(_rows(filters, 0, first), keys[:first], vocabulary, options)
    table = algorithm.insert(table, _rows(filters, first, last), keys[first:last], options)
    some = _rows(filters, last, len(keys))
    start = time.perf_counter()
    algorithm.insert(table, some, keys[last:], options)
    return time.perf_counter() - start


def _rows(filters: Any, start: int, stop: int) -> Any:
    """Copy a range of filters into new arrays, for `insert`."""
    numbers = np.arange(filters.n_rows)
    keep = find_engine("predicates").encoder.keep
    return keep(filters, (numbers >= start) & (numbers < stop))
