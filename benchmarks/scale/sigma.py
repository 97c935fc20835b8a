"""Match all convertible Sigma rules with all recorded Windows events: speed, and a check of every answer.

    python -m benchmarks.scale.sigma [--every N] [--loop-events N] [--spark]

Builds an index of the rules, matches all events (or every N-th) with one thread, and compares every
pair of an event and a rule with the oracle of the engine. There are 891 million pairs. The oracle is
called 12 million times, once for each rule and each distinct *projection* of the events, since its
answer depends only on the attributes that a rule names (`benchmarks.shared.judge` explains why these
answers cover all pairs). Then two loops over the rules in plain Python match a sample of the events:
the oracle itself, and a Python function for each rule (`benchmarks.shared.python_functions`), which is
faster. Their matches are compared, too.

`--spark` also matches all events in Spark, from Parquet files to Parquet files, and compares these pairs with the
ones that the oracle has confirmed.

Times are processor time of the one thread. Exits with an error and the first differences if there are
any; otherwise appends a JSON line to benchmarks/results/sigma.jsonl.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.shared import python_functions
from benchmarks.shared.judge import Judge

import matchyard as my
from matchyard.bench.compare import harness, machine
from matchyard.engine import find_engine

RESULTS = Path(__file__).parents[1] / "results" / "sigma.jsonl"
ENGINE = find_engine("predicates")
STEP = 4096  # events per batch, as in an index
PASSES = 3
SHOWN = 10  # differences


def seconds(function: Any) -> tuple[float, Any]:
    start = time.thread_time()
    result = function()
    return time.thread_time() - start, result


def build(source: Any) -> tuple[my.PredicateIndex, float]:
    """The index of all rules, from their text, and the seconds of the build."""
    harness.warm_up(my.PredicateIndex(), source, threads=1)
    rules, keys = source.subscriptions(0, source.size)
    index = my.PredicateIndex()
    took, _ = seconds(lambda: index.add_many(rules, keys).consolidate())
    return index, took


def measure(index: my.PredicateIndex, events: pa.Array) -> tuple[float, Any]:
    """The seconds from JSON to keys, and the matches."""
    passes = [seconds(lambda: index.match(events, threads=1)) for _ in range(PASSES)]
    return statistics.median(took for took, _ in passes), passes[-1][1]


def measure_stages(index: my.PredicateIndex, events: pa.Array) -> dict[str, float]:
    """The seconds of each step: to read JSON, to encode events, and to match encoded batches."""
    (segment,) = index.segments()
    (table,), settings = segment.tables, segment.settings
    space = settings.algorithm.workspace(table, settings.options)
    column = settings.engine.encoder.column(events, settings.input_options)
    ends = [*range(0, len(events), STEP), len(events)]
    read_s, pieces = seconds(lambda: [column.rows(*some) for some in pairwise(ends)])
    encode_s, batches = seconds(lambda: [segment.encode(piece) for piece in pieces])
    encoded_s, _ = seconds(
        lambda: [settings.algorithm.match(table, one, space, settings.options) for one in batches]
    )
    return {"read_s": read_s, "encode_s": encode_s, "encoded_s": encoded_s}


def compare(texts: list[str], events: pa.Array, matches: Any) -> dict[str, Any]:
    """Compare every pair with the oracle; exit if the matches differ."""
    predicates = [ENGINE.language.parse(text) for text in texts]
    start = time.thread_time()
    judge = Judge(events)
    differences = list(islice(judge.differences(predicates, matches), SHOWN))
    if differences:
        for one in differences:
            print(f"{one}\n  {texts[one.predicate][:300]}\n  {events[one.event].as_py()[:300]!r}")
        sys.exit("the index and the oracle differ; these are the first pairs")
    return {
        "pairs": len(texts) * len(events), "distinct_events": judge.n_distinct,
        "oracle_calls": judge.n_asked, "compare_s": time.thread_time() - start,
    }  # fmt: skip


def loops(texts: list[str], events: pa.Array, matches: Any, n_events: int) -> dict[str, float]:
    """Events per second of the two loops over the rules, from JSON to numbers of rules."""
    predicates = [ENGINE.language.parse(text) for text in texts]
    functions = [python_functions.make(predicate) for predicate in predicates]
    is_match = ENGINE.oracle.is_match

    def ask_functions(event: dict[str, Any]) -> list[int]:
        return python_functions.match(functions, event)

    def ask_oracle(event: dict[str, Any]) -> list[int]:
        return [number for number, one in enumerate(predicates) if is_match(one, event)]

    rates = {}
    for name, loop, n_asked in (
        ("functions", ask_functions, n_events),
        ("oracle", ask_oracle, n_events // 20),
    ):
        numbers = np.linspace(0, len(events) - 1, max(1, min(n_asked, len(events)))).astype(int)
        lines = events.take(pa.array(numbers)).to_pylist()
        took, answers = seconds(lambda: [loop(json.loads(line)) for line in lines])  # noqa: B023
        for number, answer in zip(numbers.tolist(), answers, strict=True):
            if answer != sorted(matches[number]):
                sys.exit(
                    f"event {number}: {name} found rules {answer}, the index {matches[number]}"
                )
        rates[f"{name}_events"], rates[f"{name}_events_per_s"] = len(lines), len(lines) / took
    return rates


def in_spark(index: my.PredicateIndex, events: pa.Array, matches: Any) -> dict[str, float]:
    """Match in Spark, and compare every pair."""
    from matchyard.spark import match_files, session

    spark = session(cores=2)
    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/index")
        table = pa.table({"id": np.arange(len(events)), "event": events})
        for number, start in enumerate(range(0, len(events), 1 << 15)):
            pq.write_table(table.slice(start, 1 << 15), f"{folder}/{number}.parquet")
        files = [f"{folder}/{number}.parquet" for number in range(number + 1)]
        for _ in range(2):  # the first pass starts workers
            done = match_files(
                files,
                f"{folder}/index",
                f"{folder}/out",
                event="event",
                overwrite=True,
                spark=spark,
            )
        pairs = pq.read_table(f"{folder}/out").sort_by([("id", "ascending"), ("key", "ascending")])
    spark.stop()
    expected = matches.to_arrow().sort_by([("event", "ascending"), ("key", "ascending")])
    for name, other in (("id", "event"), ("key", "key")):
        if not np.array_equal(pairs[name].to_numpy(), expected[other].to_numpy()):
            sys.exit("the pairs of Spark are others")
    return {"spark_s": done.seconds, "spark_matches": done.matches}


def summary(values: dict[str, Any]) -> list[tuple[str, str]]:
    """The results in words."""
    n_events, fast = values["events"], values["events"] / values["match_s"]
    return [
        ("rules", f"{values['rules']:,} in {values['build_s']:.2f} s: "
                  f"{values['rules'] / values['build_s']:,.0f}/s"),
        ("events", f"{n_events:,}, of them {values['distinct_events']:,} distinct"),
        ("matches", f"{values['matches']:,}"),
        ("JSON to keys", f"{fast:,.0f} events/s"),
        ("encoded batches to keys", f"{n_events / values['encoded_s']:,.0f} events/s (reading JSON "
            f"took {values['read_s']:.1f} s, encoding {values['encode_s']:.1f} s, "
            f"matching {values['encoded_s']:.1f} s)"),
        ("pairs compared", f"{values['pairs']:,}, all the same; the oracle was asked "
                           f"{values['oracle_calls']:,} times in {values['compare_s']:.0f} s"),
        *(
            (f"loop over {what}", f"{values[f'{name}_events_per_s']:,.1f} events/s "
             f"({values[f'{name}_events']:,} events); the index is "
             f"{fast / values[f'{name}_events_per_s']:,.0f} times as fast")
            for name, what in (("functions", "Python functions"), ("oracle", "the oracle"))
        ),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="take every N-th event")
    parser.add_argument("--spark", action="store_true", help="match in Spark, too")
    parser.add_argument("--loop-events", type=int, default=2000, help="events of the Python loops")
    given = parser.parse_args()
    source: Any = my.workload("predicates", "sigma", sys.maxsize)
    events = source.events(source.n_events)
    events = events.take(pa.array(np.arange(0, len(events), given.every)))
    texts = source.subscriptions(0, source.size)[0].to_pylist()
    index, build_s = build(source)
    match_s, matches = measure(index, events)
    values = {
        "rules": len(texts), "events": len(events), "matches": matches.work.matches,
        "build_s": build_s, "match_s": match_s, **measure_stages(index, events),
        **compare(texts, events, matches), **loops(texts, events, matches, given.loop_events),
    }  # fmt: skip
    if given.spark:
        values |= in_spark(index, events, matches)
        rate = len(events) / values["spark_s"]
        print(f"in Spark: {values['spark_matches']:,} pairs, the same ones; {rate:,.0f} events/s")
    for name, what in summary(values):
        print(f"{name:<28}{what}")
    with RESULTS.open("a") as file:
        file.write(json.dumps({**values, "machine": machine.describe()}) + "\n")


if __name__ == "__main__":
    main()
