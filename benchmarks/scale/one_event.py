"""One event at a time, from Python values to Python keys, in one thread.

    python -m benchmarks.scale.one_event [CASE …]

For each case and form of the events, prints the median and the 99th percentile of `match_one` and of
`match([event])[0]`, and compares the answers of the two with those of a batch.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import matchyard as my

N_EVENTS = 10_000
WARM = 1_000
Case = Callable[[], Iterator[tuple[str, my.Index, list[Any]]]]


def built(engine: str, workload: str, size: int) -> tuple[my.Index, Any]:
    source = my.workload(engine, workload, size)
    index = my.create(engine)
    for subscriptions, keys in source.chunks():
        index.add_many(subscriptions, keys)
    return index.consolidate(), source.events(N_EVENTS)


def tags() -> Iterator[tuple[str, my.Index, list[Any]]]:
    """`twitter`, 1 M subscriptions; events with fewer than 20 matches."""
    index, column = built("tags", "twitter", 1_000_000)
    events = column.to_pylist()
    few = [event for event, keys in zip(events, index.match(events)) if len(keys) < 20]
    yield "set", index, [set(event) for event in few]
    yield "text", index, [" ".join(event) for event in few]


def objects(column: Any) -> list[dict[str, Any]]:
    """Events as a program has them: without the attributes that are null."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in (
            json.loads(one) if isinstance(one, str | bytes) else dict(one)
            for one in column.to_pylist()
        )
    ]


def predicates(workload: str, size: int) -> Case:
    def case() -> Iterator[tuple[str, my.Index, list[Any]]]:
        index, column = built("predicates", workload, size)
        events = objects(column)
        yield "dict", index, events
        yield "JSON", index, [json.dumps(event) for event in events]

    case.__doc__ = f"`{workload}`, {size:,} subscriptions."
    return case


def mixed_rules(n_rules: int, seed: int = 1) -> tuple[list[str], Callable[[], dict[str, Any]]]:
    """Rules with all kinds of operators over 20 attributes, three constraints each, one of them an
    equality; and a source of events with all attributes."""
    random_state = random.Random(seed)
    words = [f"{a}{b}" for a in ("north", "south", "east", "west") for b in range(50)]

    def constraint(number: int, is_equality: bool) -> str:
        name, word = f"a{number}", random_state.choice(words)
        low = random_state.randrange(1000)
        if is_equality:
            return f'{name} = "{word}"' if number % 2 else f"{name} = {low}"
        return random_state.choice(
            [
                f'{name} = "{word}"', f'{name} = "{word}"', f'{name} in {{"{word}", "other"}}',
                f'{name} prefix "{word[:-1]}"', f'{name} suffix "{word[-3:]}"',
                f'{name} != "{word}"', f"exists {name}",
            ]
            if number % 2
            else [
                f"{name} = {low}", f"{name} = {low}", f"{name} > {low}",
                f"{name} in [{low}, {low + 50}]", f"{name} <= {low}", f"{name} != {low}",
            ]
        )  # fmt: skip

    rules = [
        " and ".join(
            constraint(number, is_equality=i == 0)
            for i, number in enumerate(random_state.sample(range(20), 3))
        )
        for _ in range(n_rules)
    ]

    def event() -> dict[str, Any]:
        return {
            f"a{i}": random_state.choice(words) if i % 2 else random_state.randrange(1000)
            for i in range(20)
        }

    return rules, event


def mixed() -> Iterator[tuple[str, my.Index, list[Any]]]:
    """10 k rules with all kinds of operators, three of 20 attributes each."""
    rules, event = mixed_rules(10_000)
    index = my.PredicateIndex().add_many(rules, range(len(rules))).consolidate()
    events = [event() for _ in range(N_EVENTS)]
    yield "dict", index, events
    yield "JSON", index, [json.dumps(one) for one in events]


def twigs() -> Iterator[tuple[str, my.Index, list[Any]]]:
    """`dblp`, 1 000 twigs without value tests; documents of about 1 kB."""
    parameters = {"document_bytes": 700, "record_bytes": 500}
    source = my.workload("twigs", "dblp", 1_000, parameters=parameters)
    index = my.TwigIndex()
    for subscriptions, keys in source.chunks():
        index.add_many(subscriptions, keys)
    yield "bytes", index.consolidate(), source.events(N_EVENTS).to_pylist()


CASES: dict[str, Case] = {
    "tags": tags,
    "json-eq": predicates("json-eq", 100_000),
    "mixed": mixed,
    "ccm": predicates("ccm", 250_000),
    "hem": predicates("hem", 1_000_000),
    "twigs": twigs,
}


def quantiles(call: Callable[[Any], list[Any]], events: list[Any]) -> str:
    for event in events[:WARM]:
        call(event)
    times = []
    for event in events:
        start = time.perf_counter_ns()
        call(event)
        times.append(time.perf_counter_ns() - start)
    times.sort()
    return f"{times[len(times) // 2] / 1e3:9.1f}{times[int(0.99 * len(times))] / 1e3:9.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    asked = parser.parse_args()
    print(f"{'':24}{'match_one, µs':>18}{'match, µs':>18}{'keys':>8}")
    print(f"{'case':16}{'event':8}{'p50':>9}{'p99':>9}{'p50':>9}{'p99':>9}{'each':>8}")
    for name in asked.cases or CASES:
        for form, index, events in CASES[name]():
            answers = index.match(events)
            for event, keys in zip(events[:WARM], answers):
                if sorted(index.match_one(event)) != sorted(keys):
                    raise SystemExit(f"{name}: match_one differs from match: {event}")
            one = quantiles(index.match_one, events)
            batch = quantiles(lambda event, index=index: index.match([event])[0], events)
            each = answers.work.matches / len(events)
            print(f"{name:16}{form:8}{one}{batch}{each:8.1f}", flush=True)


if __name__ == "__main__":
    main()
