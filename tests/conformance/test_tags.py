"""Every algorithm gives what the definition of a match gives, with room and without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import (
    CASES,
    CRAMPED,
    ROOMY,
    SIGNED,
    Case,
    build,
    counted,
    events,
    expected,
    int_keys,
    str_keys,
    subscriptions,
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_signed_case = pytest.mark.parametrize("case", SIGNED, ids=lambda case: case.name)
keyed = st.lists(st.tuples(subscriptions, int_keys), max_size=24)
asked = st.lists(events, max_size=8)


@pytest.mark.parametrize("cases", [ROOMY, CRAMPED], ids=["roomy", "cramped"])
def test_no_algorithm_escapes_conformance(cases: list[Case]) -> None:
    assert {case.algorithm for case in cases} == set(find_engine("tags").algorithms)


@pytest.mark.stepped
@every_case
@given(keyed=keyed, asked=asked, arrow=st.booleans())
def test_matches_are_those_of_the_oracle(case: Case, keyed: list, asked: list, arrow: bool) -> None:
    rows, keys = [row for row, _ in keyed], [key for _, key in keyed]
    given_rows = pa.array(rows, pa.list_(pa.string())) if arrow else rows
    given_events = pa.array(asked, pa.large_list(pa.string())) if arrow else asked
    index = build(given_rows, np.array(keys, np.int64), case.algorithm, case.options)
    want = expected(rows, keys, asked)
    found = index.match(given_events)
    assert counted(found) == want
    assert found.work.matches == sum(map(Counter.total, want))
    unique = index.match_unique(given_events)
    assert [sorted(keys) for keys in unique] == [sorted(keys) for keys in want]
    assert len(index) == len(rows)


@every_case
@given(rows=st.lists(subscriptions, max_size=12), asked=asked)
def test_one_key_gets_an_event_once_per_subscription(case: Case, rows: list, asked: list) -> None:
    index = build(rows, ["only"] * len(rows), case.algorithm, case.options)
    want = expected(rows, ["only"] * len(rows), asked)
    assert counted(index.match(asked)) == want
    assert [list(keys) for keys in index.match_unique(asked)] == [list(keys) for keys in want]


@every_case
@settings(max_examples=8)
@given(rows=st.lists(st.tuples(subscriptions, str_keys), max_size=24), asked=asked)
def test_a_saved_index_is_the_same_when_opened(
    case: Case, quick_saves: None, rows: list, asked: list
) -> None:
    tags, keys = [row for row, _ in rows], [key for _, key in rows]
    index = build(tags, pa.array(keys, pa.string()), case.algorithm, case.options, shard_size=9)
    with TemporaryDirectory() as folder:
        index.save(Path(folder, "an.index"))
        opened = my.open(Path(folder, "an.index"), verify=True, device=index.device)
        assert opened.match(asked).to_lists() == index.match(asked).to_lists()
        assert opened.match(asked).work == index.match(asked).work
        assert opened.info() == index.info()
        # And what can be done with it next is the same too.
        again = opened.add({"a"}, "ada").remove("bob").consolidate()
        index.add({"a"}, "ada").remove("bob").consolidate()
        assert counted(again.match(asked)) == counted(index.match(asked))
        assert counted(index.match(asked)) == expected(
            *zip(*[row for row in rows if row[1] != "bob"], (["a"], "ada"), strict=True), asked
        )


@every_case
@settings(max_examples=15)
@given(keyed=keyed, asked=st.lists(events, max_size=20))
def test_two_threads_find_what_one_finds(
    case: Case, small_chunks: int, keyed: list, asked: list
) -> None:
    rows, keys = [row for row, _ in keyed], [key for _, key in keyed]
    index = build(rows, np.array(keys, np.int64), case.algorithm, case.options)
    one, two = index.match(asked, threads=1), index.match(asked, threads=2)
    assert two.to_lists() == one.to_lists()
    assert two.work == one.work
    assert len(two.parts) == max(1, -(-len(asked) // small_chunks))
    assert counted(two) == expected(rows, keys, asked)
    assert [two[event] for event in range(len(two))] == one.to_lists()


@every_case
@settings(max_examples=25)
@given(keyed=keyed, asked=asked, gone=int_keys)
def test_shards_find_what_one_table_finds(case: Case, keyed: list, asked: list, gone: int) -> None:
    rows, keys = [row for row, _ in keyed], [key for _, key in keyed]
    index = build(rows, np.array(keys, np.int64), case.algorithm, case.options, shard_size=3)
    assert index.info()["tables"] == max(1, -(-len(rows) // 3))
    assert counted(index.match(asked)) == expected(rows, keys, asked)
    index.remove(gone).consolidate()
    left = [(row, key) for row, key in keyed if key != gone]
    want = expected([row for row, _ in left], [key for _, key in left], asked)
    assert counted(index.match(asked)) == want


@every_case
def test_an_event_so_long_that_no_signature_filters_is_compared_tag_by_tag(case: Case) -> None:
    random = np.random.default_rng(12)
    rows = [[f"t{n}" for n in random.integers(0, 300, size)] for size in random.integers(1, 5, 500)]
    asked = [[f"t{n}" for n in random.choice(300, 150, replace=False)] for _ in range(6)]
    want = expected(rows, range(500), asked)
    assert counted(build(rows, None, *case[:2]).match(asked)) == want


@every_case
def test_an_empty_index_matches_nothing(case: Case) -> None:
    for index in (my.TagIndex(case.algorithm, case.options), build([], [], *case[:2])):
        assert index.match([["a"], []]).to_lists() == [[], []]
        assert index.match_unique([["a"]]).to_lists() == [[]]
        assert index.match([["a"]]).work == my.Work(0, 0)
        assert len(index) == 0


@every_case
def test_an_empty_batch_has_no_matches(case: Case) -> None:
    index = build([["a"], []], None, *case[:2])
    for none in ([], (), np.array([], object), pa.array([], pa.list_(pa.string()))):
        found = index.match(none)
        assert (len(found), found.to_lists(), found.work.matches) == (0, [], 0)
        assert found.to_arrow().num_rows == 0


@every_case
def test_a_batch_longer_than_a_chunk_keeps_its_order(case: Case) -> None:
    index = build([["a"], ["b"], []], [10, 20, 30], *case[:2])
    found = index.match([["a"], ["b"], ["c"]] * 3000, threads=2)
    assert counted(found) == [Counter([10, 30]), Counter([20, 30]), Counter([30])] * 3000


@every_signed_case
@given(keyed=keyed, asked=asked)
def test_without_the_exact_check_no_match_is_missed(case: Case, keyed: list, asked: list) -> None:
    rows, keys = [row for row, _ in keyed], [key for _, key in keyed]
    index = build(rows, np.array(keys, np.int64), case.algorithm, {**case.options, "exact": False})
    for found, want in zip(counted(index.match(asked)), expected(rows, keys, asked), strict=True):
        assert want <= found


FALSE_POSITIVE_RATE = 1e-4  # of pairs that do not match, 192 bits and 7 hashes, eight tags


@pytest.mark.parametrize("algorithm", ["tagmatch", "prefix_tree", "scan"])
def test_without_the_exact_check_false_matches_are_rare(algorithm: str) -> None:
    random = np.random.default_rng(11)
    rows = [
        [f"t{n}" for n in random.integers(0, 500, size)] for size in random.integers(1, 4, 3000)
    ]
    asked = [[f"t{n}" for n in random.integers(0, 500, 8)] for _ in range(400)]
    exact = build(rows, None, algorithm).match(asked).work.matches
    found = build(rows, None, algorithm, {"exact": False}).match(asked).work.matches
    assert exact <= found <= exact + FALSE_POSITIVE_RATE * len(rows) * len(asked)


@pytest.mark.stepped
@pytest.mark.parametrize(
    "case", [case for case in SIGNED if case in CRAMPED], ids=lambda case: case.name
)
def test_crowded_signatures_do_collide_so_that_the_exact_check_is_tested(case: Case) -> None:
    rows = [[f"t{n}"] for n in range(50)]
    loose = build(rows, None, case.algorithm, {**case.options, "exact": False})
    assert loose.match([["t0", "t1"]]).work.matches > 2
    assert sorted(build(rows, None, *case[:2]).match([["t0", "t1"]])[0]) == [0, 1]
