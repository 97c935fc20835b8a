"""Updates and subsumption queries per second at one interface of a router, in CPU time of one thread.

    python -m benchmarks.scale.rib_speed [SETS]

`covers` asks a RIB whether some filter subsumes a descriptor. `rarest` and `prefix_tree` (the thesis' PATRICIA
tries by weight) find all such filters, in an index of the same filters. Queries are random, and parsed from
text unless the result is called encoded. Appends lines to benchmarks/results/rib.jsonl.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.routing import Rib, Update

RESULTS = Path(__file__).parent.parent / "results" / "rib.jsonl"
UPDATES, QUERIES, BATCH = 1_000_000, 200_000, 10_000


def timed(act, n_done: int, repeats: int = 5) -> float:
    """The rate per second of CPU time, the median of some runs."""
    rates = []
    for _ in range(repeats):
        start = time.process_time()
        act()
        rates.append(n_done / (time.process_time() - start))
    return statistics.median(rates)


def update_rates(form: str, n_sets: int, n_updates: int, as_text: bool) -> tuple[float, int]:
    """Time batches of random additions and removals at interface 1 of 3, with the updates for neighbours."""
    rows, _ = my.workload("tags", "icn", n_sets, 1).subscriptions(0, n_sets)
    random = np.random.default_rng(1)
    Rib([[1, 2, 3]], form).apply(Update(rows[:1000], rows[:10]), 0, 1)
    rib = Rib([[1, 2, 3]], form)
    everything = rib.vocabulary.encode(rows)
    rib.apply(Update(everything), 0, 1)
    seconds = 0.0
    for _ in range(n_updates // BATCH):
        chosen = random.integers(0, n_sets, BATCH)
        came, gone = chosen[: BATCH // 2], chosen[BATCH // 2 :]
        change = Update(
            *((rows.take(some) if as_text else everything.take(some)) for some in (came, gone))
        )
        start = time.process_time()
        rib.apply(change, 0, 1)
        seconds += time.process_time() - start
    return n_updates / seconds, len(rib)


def query_rates(n_sets: int) -> dict[str, float]:
    """Time subsumption queries against distinct sets; the RIB keeps all, though some subsume others."""
    rows, _ = my.workload("tags", "icn", n_sets, 1).subscriptions(0, n_sets)
    random = np.random.default_rng(2)
    asked = rows.take(random.integers(0, n_sets, QUERIES))
    rib = Rib([[1]])
    rib.apply(Update(rows), 0, 0)  # the local interface keeps all filters
    encoded = rib.vocabulary.encode(asked)
    rates = {"covers": timed(lambda: rib.covers(asked, 0, 0), QUERIES),
             "covers, encoded": timed(lambda: rib.covers(encoded, 0, 0), QUERIES)}  # fmt: skip
    assert rib.covers(asked, 0, 0).all()
    n_found = set()
    for algorithm in ("rarest", "prefix_tree"):
        index = my.TagIndex(algorithm).add_many(rows, np.arange(n_sets)).consolidate()
        some = asked if algorithm == "rarest" else asked[: QUERIES // 10]
        n_found.add(index.match(asked[:5_000]).work.matches)
        rates[algorithm] = timed(lambda index=index, some=some: index.match(some), len(some))
    assert len(n_found) == 1, f"they find {n_found} filters"
    return rates


def main(n_sets: int) -> None:
    for form, as_text, n_updates in (
        ("tags", False, UPDATES), ("tags", True, UPDATES), ("bloom", False, 4 * BATCH)
    ):  # fmt: skip
        rate, n_filters = update_rates(form, n_sets, n_updates, as_text)
        write({"kind": "rib updates", "descriptors": form, "text": as_text, "sets": n_sets,
               "filters": n_filters, "updates": n_updates, "per_s": rate})  # fmt: skip
    for name, rate in query_rates(n_sets).items():
        write({"kind": "subsumption", "by": name, "sets": n_sets, "per_s": rate})


def write(line: dict) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | {"machine": machine.describe()}) + "\n")
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", type=int, nargs="?", default=200_000)
    main(parser.parse_args().sets)
