"""A distributed build answers as one build over everything does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard.shards import staged_parts
from tests.cases import staged

PARTS = [
    ([{"jazz"}, {"live", "jazz"}, set()], [1, 2, 3]),
    ([{"oslo"}, {"jazz", "oslo"}, {"jazz"}], [4, 5, 6]),
    ([], []),
    ([{"rock"}], [7]),
]
EVENTS = [{"jazz", "oslo"}, {"rock", "live", "jazz"}, {"unheard"}, set()]


def built(path, plan, tasks):
    with shards.new_version(path) as folder:
        parts, vocabulary, key_names = staged(folder, plan, *tasks)
        files = shards.write_names(folder, vocabulary, key_names)
        for number, some in enumerate(parts):
            some = [shards.Part.of_json(part.to_json()) for part in some]
            table = shards.compiled(folder, some, vocabulary, key_names, plan)
            files += shards.write_table(folder, number, table)
        files = json.loads(json.dumps(files))  # what a task returns must travel
        shards.publish(path, folder, files, plan, [len(tasks)])
    return my.open(path, verify=True)


@pytest.mark.parametrize("algorithm", my.algorithms("tags"))
def test_shards_answer_like_one_table(tmp_path, algorithm):
    index = built(tmp_path / "a.index", shards.Plan(algorithm=algorithm), PARTS)
    whole = my.TagIndex(algorithm)
    for tags, keys in PARTS:
        whole.add_many(tags, keys)
    whole.consolidate()
    assert index.info()["tables"] == len(PARTS)
    assert len(index) == 7
    for found, wanted in zip(index.match(EVENTS), whole.match(EVENTS), strict=True):
        assert sorted(found) == sorted(wanted)


def test_shards_number_string_keys_alike(tmp_path):
    parts = [([{"a"}, {"b"}], ["ada", "bob"]), ([{"a", "b"}], ["ada"])]
    index = built(tmp_path / "a.index", shards.Plan(), parts)
    assert sorted(index.match([{"a", "b"}])[0]) == ["ada", "ada", "bob"]
    assert index.match_unique([{"a"}])[0] == ["ada"]


def test_keys_stay_strings_if_the_last_rows_are_none(tmp_path):
    none = pa.array([], pa.list_(pa.string())), pa.array([], pa.string())
    with shards.new_version(tmp_path / "a.index") as folder:
        rows = [([{"a"}], ["ada"]), none]
        [part] = shards.stage(folder, rows, PLAN, shards.scratch())
        _, key_names = shards.merged(folder, [part], PLAN)
    assert part.string_keys
    assert key_names.name(0) == "ada"


def test_an_index_of_shards_can_be_changed_and_saved_as_one(tmp_path):
    index = built(tmp_path / "a.index", shards.Plan(), PARTS)
    index.remove(2).add({"jazz"}, 9).save(tmp_path / "b.index")
    again = my.open(tmp_path / "b.index")
    assert again.info()["tables"] == 1
    assert sorted(again.match([{"jazz", "live"}])[0]) == [1, 3, 6, 9]


def test_the_vocabulary_is_ranked_over_all_parts(tmp_path):
    with shards.new_version(tmp_path / "a.index") as folder:
        _, vocabulary, _ = staged(folder, shards.Plan(), *PARTS)
    assert vocabulary.name(0) == "jazz"
    assert vocabulary.counts().tolist() == sorted(vocabulary.counts().tolist(), reverse=True)
    assert vocabulary.counts()[0] == 4


@pytest.mark.parametrize(("keys", "reason"), [
    ([1, 2], "1 subscriptions, but 2 keys"),
    ([None], "null among the keys, 1 times"),
    (np.array([2**64 - 1], np.uint64), "not keys: Integer value 18446744073709551615"),
    ([1.5], "not keys: a column of double"),
])  # fmt: skip
def test_keys_that_do_not_fit_are_refused(keys, reason, tmp_path):
    refused = pytest.raises(my.UsageError, match=reason)
    with shards.new_version(tmp_path / "a.index") as folder, refused:
        staged(folder, shards.Plan(), ([{"jazz"}], keys))


@pytest.mark.parametrize(("plan", "rows", "kind", "reason"), [
    (shards.Plan(), [["jazz"], None], my.ParseError, "row 1 is null; expected tags"),
    (shards.Plan("predicates"), ["x = 1", "x >"], my.ParseError, "row 1: not a predicate"),
    (shards.Plan("predicates", "hem"), ["x = 1", 'x contains "a"'], my.UsageError, "hem takes one"),
    (shards.Plan("twigs"), ["//a", "//["], my.ParseError, "row 1"),
], ids=["tags", "predicates", "hem", "twigs"])  # fmt: skip
def test_a_check_raises_what_staging_would_raise(plan, rows, kind, reason, tmp_path):
    shards.check(rows[:1], plan)
    with pytest.raises(kind, match=reason) as checked:
        shards.check(pa.array(rows), plan)
    with shards.new_version(tmp_path / "a.index") as folder, pytest.raises(kind) as caught:
        staged(folder, plan, (pa.array(rows), [1, 2]))
    assert str(checked.value) == str(caught.value)


PLAN = shards.Plan()


def dealt_out(folder, rows, n_shards, plan=PLAN):
    """Rows in shards by their rarest names, as Spark does it: the files of names, routes, tables."""
    [[part]], vocabulary, _ = staged(folder, plan, (rows, range(len(rows))))
    n_filed = shards.sampled(folder, [part], vocabulary, plan)
    routes = shards.cut(n_filed, n_shards)
    dealt, _ = shards.deal(folder, part, vocabulary, None, routes, plan, shards.scratch())
    by_shard = [[one for one in dealt if one.shard == shard] for shard in range(n_shards)]
    tables = [shards.compiled(folder, some, vocabulary, None, plan) for some in by_shard]
    return shards.write_names(folder, vocabulary), routes, tables


def test_ranges_of_rarest_names_hold_about_as_many_subscriptions_each(tmp_path):
    rows, _ = my.workload("tags", "peers", 5000).subscriptions(0, 5000)
    with shards.new_version(tmp_path / "a.index") as folder:
        _, routes, tables = dealt_out(folder, rows, 8)
    assert sorted(key for table in tables for key in table.keys) == list(range(5000))
    assert max(len(table.keys) for table in tables) < 1.2 * 5000 / 8
    used = routes[routes >= 0]
    assert (np.diff(used) >= 0).all()  # ranges


def test_samples_of_parts_count_as_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(staged_parts, "_LEAST_SAMPLE", 100)
    with shards.new_version(tmp_path / "a.index") as folder:
        parts = [
            *shards.stage(folder, [([["a"]] * 100, range(100))], PLAN, shards.scratch()),
            *shards.stage(folder, [([["b"]] * 10_000, range(10_000))], PLAN, shards.scratch()),
        ]
        vocabulary, _ = shards.merged(folder, parts, PLAN)
        n_filed = shards.sampled(folder, parts, vocabulary, PLAN)
    assert sorted(n_filed[n_filed > 0]) == [100, 10_000]


@pytest.mark.parametrize("leaf", [1, 3, 64])
def test_joined_shards_are_the_table_of_one_build(tmp_path, leaf):
    plan = shards.Plan(options={"leaf": leaf})
    rows = [
        *my.workload("tags", "skew", 800).subscriptions(0, 800)[0].to_pylist(),
        [],
        ["jazz"],
        [],
    ]
    with shards.new_version(tmp_path / "a.index") as folder:
        files, _, tables = dealt_out(folder, rows, 5, plan)
        written = [
            shards.write_table(folder, n, table, below=shards.scratch())
            for n, table in enumerate(tables)
        ]
        files += shards.join(folder, 0, written, plan)
        shards.publish(tmp_path / "a.index", folder, files, plan, [1])
    joined = my.open(tmp_path / "a.index", verify=True)
    whole = my.TagIndex(options={"leaf": leaf}).add_many(rows, range(len(rows))).consolidate()
    [ours], [theirs] = (index.segments()[0].tables for index in (joined, whole))
    for field in set(ours._fields) - {"keys"}:
        assert getattr(ours, field).tolist() == getattr(theirs, field).tolist(), field
    asked = my.workload("tags", "skew", 800).events(200)
    assert [sorted(keys) for keys in joined.match(asked)] == [sorted(k) for k in whole.match(asked)]
    assert joined.match(asked).work == whole.match(asked).work


def test_routes_lead_to_every_shard_that_can_match(tmp_path):
    rows = [*my.workload("tags", "peers", 2000).subscriptions(0, 2000)[0].to_pylist(), []]
    plan = shards.Plan()
    path = tmp_path / "a.index"
    with shards.new_version(path) as folder:
        files, routes, tables = dealt_out(folder, rows, 6)
        files += shards.write_routes(folder, routes)
        for n, table in enumerate(tables):
            files += shards.write_table(folder, n, table)
        shards.publish(path, folder, files, plan, [6])
    asked = my.workload("tags", "peers", 2000).events(300)
    events, places = shards.Routes(path, "0001").of(asked)
    pairs = set(zip(events.tolist(), places.tolist(), strict=True))
    assert len(pairs) == len(events) < 300 * 6  # each once, and not everywhere
    for shard in range(6):
        found = shards.open_shards(path, "0001", [shard]).match(asked)
        assert {(event, shard) for event, keys in enumerate(found) if keys} <= pairs


def test_a_segment_without_routes_is_asked_every_time(tmp_path):
    built(tmp_path / "a.index", shards.Plan(), PARTS)
    events, places = shards.Routes(tmp_path / "a.index", "0001").of([["jazz"], []])
    assert list(zip(events.tolist(), places.tolist())) == [(e, s) for e in (0, 1) for s in range(4)]


@pytest.mark.parametrize(("engine", "subscriptions", "good", "bad", "reason"), [
    ("predicates", ["a > 1", "b > 1"], '{"a": 2}', "{", "event 1 is not JSON"),
    ("twigs", ["//a", "//b"], "<a/>", "<a>", "document 1 at line 1"),
])  # fmt: skip
def test_routes_refuse_a_bad_event_also_where_all_shards_are_asked(
    engine, subscriptions, good, bad, reason, tmp_path
):
    first, second = subscriptions
    built(tmp_path / "a.index", shards.Plan(engine), [([first], [1]), ([second], [2])])
    routes = shards.Routes(tmp_path / "a.index", "0001")
    assert routes.of([good, good])[0].tolist() == [0, 0, 1, 1]
    with pytest.raises(my.ParseError, match=reason):
        routes.of([good, bad])


def test_an_old_format_can_be_carried_on(tmp_path):
    """Changes appended to an index of format 1 make a version of the current one."""
    golden = Path(__file__).parents[1] / "golden" / "format-1" / "rarest-int"
    path = Path(shutil.copytree(golden, tmp_path / "a.index"))
    before = [sorted(keys) for keys in my.open(path).match([["jazz", "live", "oslo"]])]
    removed = pa.table({"subscription": pa.array([None], pa.list_(pa.string())), "key": [1]})
    with shards.new_version(path) as folder:
        base = shards.carry(path, folder, removed)
        shards.publish(path, folder, base.files, base.plan, base.segments)
    after = [sorted(keys) for keys in my.open(path, verify=True).match([["jazz", "live", "oslo"]])]
    assert after == [[key for key in before[0] if key != 1]]
    assert my.open(path, version="0001", verify=True)


@pytest.mark.parametrize("keys", [range(9), [f"k{n}" for n in range(9)]])
def test_a_task_with_many_rows_stages_several_parts(tmp_path, monkeypatch, keys):
    monkeypatch.setattr("matchyard.shards.staged_parts._PART_ROWS", 2)
    path, plan, keys = tmp_path / "a.index", shards.Plan(), list(keys)
    rows = [{f"t{n % 4}", f"u{n % 3}"} for n in range(9)]
    with shards.new_version(path) as folder:
        given = [(rows[n : n + 3], keys[n : n + 3]) for n in (0, 3, 6)]
        parts = list(shards.stage(folder, given, plan, shards.scratch()))
        assert len(parts) == 3
        vocabulary, key_names = shards.merged(folder, parts, plan)
        files = shards.write_names(folder, vocabulary, key_names)
        table = shards.compiled(folder, parts, vocabulary, key_names, plan)
        files += shards.write_table(folder, 0, table)
        shards.publish(path, folder, files, plan, [1])
    assert sorted((key, tuple(sorted(tags))) for key, tags in my.open(path).items()) == sorted(
        (key, tuple(sorted(tags))) for key, tags in zip(keys, rows)
    )


def test_a_task_that_goes_on_after_its_build_has_failed_leaves_nothing(tmp_path):
    path, plan = tmp_path / "below" / "a.index", shards.Plan()
    with pytest.raises(ZeroDivisionError), shards.new_version(path) as folder:
        raise ZeroDivisionError
    assert not (tmp_path / "below").exists()
    my.TagIndex().save(path)
    with pytest.raises(ZeroDivisionError), shards.new_version(path) as folder:
        raise ZeroDivisionError
    with pytest.raises(OSError, match="No such file"):
        list(shards.stage(folder, [([{"a"}], [1])], plan, shards.scratch()))
    assert [entry.name for entry in (path / "versions").iterdir()] == ["0001"]
