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

PARTS = [
    ([{"jazz"}, {"live", "jazz"}, set()], [1, 2, 3]),
    ([{"oslo"}, {"jazz", "oslo"}, {"jazz"}], [4, 5, 6]),
    ([], []),
    ([{"rock"}], [7]),
]
EVENTS = [{"jazz", "oslo"}, {"rock", "live", "jazz"}, {"unheard"}, set()]


def built(path, plan, parts, key_names=None):
    vocabulary = shards.merge([shards.count(tags, plan) for tags, _ in parts], plan)
    with shards.new_version(path) as folder:
        files = shards.write_names(folder, vocabulary, key_names)
        for number, (tags, keys) in enumerate(parts):
            files += shards.write(folder, number, tags, keys, vocabulary, plan, key_names)
        files = json.loads(json.dumps(files))  # what a task returns must travel
        shards.publish(path, folder, files, plan, [len(parts)])
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
    names = shards.merge_keys([pa.array(keys) for _, keys in parts])
    index = built(tmp_path / "a.index", shards.Plan(), parts, names)
    assert sorted(index.match([{"a", "b"}])[0]) == ["ada", "ada", "bob"]
    assert index.match_unique([{"a"}])[0] == ["ada"]


def test_an_index_of_shards_can_be_changed_and_saved_as_one(tmp_path):
    index = built(tmp_path / "a.index", shards.Plan(), PARTS)
    index.remove(2).add({"jazz"}, 9).save(tmp_path / "b.index")
    again = my.open(tmp_path / "b.index")
    assert again.info()["tables"] == 1
    assert sorted(again.match([{"jazz", "live"}])[0]) == [1, 3, 6, 9]


def test_the_vocabulary_is_ranked_over_all_parts():
    plan = shards.Plan()
    vocabulary = shards.merge([shards.count(tags, plan) for tags, _ in PARTS], plan)
    assert vocabulary.name(0) == "jazz"
    assert vocabulary.counts().tolist() == sorted(vocabulary.counts().tolist(), reverse=True)
    assert vocabulary.counts()[0] == 4


def test_what_was_not_counted_is_refused(tmp_path):
    plan = shards.Plan()
    vocabulary = shards.merge([shards.count([{"jazz"}], plan)], plan)
    with shards.new_version(tmp_path / "a.index") as folder:
        with pytest.raises(my.UsageError, match="tag 'rock' is not in the vocabulary"):
            shards.write(folder, 0, [{"rock"}], [1], vocabulary, plan)
        with pytest.raises(my.UsageError, match="1 subscriptions, but 2 keys"):
            shards.write(folder, 0, [{"jazz"}], [1, 2], vocabulary, plan)
        with pytest.raises(my.UsageError, match="string keys need their numbers"):
            shards.write(folder, 0, [{"jazz"}], ["ada"], vocabulary, plan)
        names = shards.merge_keys([pa.array(["bob"])])
        with pytest.raises(my.UsageError, match="key 'ada' has no number"):
            shards.write(folder, 0, [{"jazz"}], ["ada"], vocabulary, plan, names)


PLAN = shards.Plan()


def dealt_out(rows, n_shards, plan=PLAN):
    """Rows in shards by their rarest names, as Spark does it: vocabulary, routes, parts."""
    vocabulary = shards.merge([shards.count(rows, plan)], plan)
    rarest = shards.rarest(rows, vocabulary, plan)
    n_filed = np.bincount(rarest + 1, minlength=vocabulary.n_names + 1)
    routes = shards.cut(n_filed, n_shards)
    parts = [
        [number for number, name in enumerate(rarest) if routes[1 + name] == shard]
        for shard in range(n_shards)
    ]
    return vocabulary, routes, parts


def test_ranges_of_rarest_names_hold_about_as_many_subscriptions_each():
    rows, _ = my.workload("tags", "peers", 5000).subscriptions(0, 5000)
    _, routes, parts = dealt_out(rows, 8)
    assert sorted(row for part in parts for row in part) == list(range(5000))
    assert max(map(len, parts)) < 1.2 * 5000 / 8
    used = routes[routes >= 0]
    assert (np.diff(used) >= 0).all()  # ranges


@pytest.mark.parametrize("leaf", [1, 3, 64])
def test_joined_shards_are_the_table_of_one_build(tmp_path, leaf):
    plan = shards.Plan(options={"leaf": leaf})
    rows = [
        *my.workload("tags", "skew", 800).subscriptions(0, 800)[0].to_pylist(),
        [],
        ["jazz"],
        [],
    ]
    vocabulary, _, parts = dealt_out(rows, 5, plan)
    with shards.new_version(tmp_path / "a.index") as folder:
        files = shards.write_names(folder, vocabulary)
        written = [
            shards.write(folder, n, [rows[row] for row in part], part, vocabulary, plan,
                         below=shards.scratch())
            for n, part in enumerate(parts)
        ]  # fmt: skip
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
    vocabulary, routes, parts = dealt_out(rows, 6)
    path = tmp_path / "a.index"
    with shards.new_version(path) as folder:
        files = shards.write_names(folder, vocabulary) + shards.write_routes(folder, routes)
        for n, part in enumerate(parts):
            files += shards.write(folder, n, [rows[row] for row in part], part, vocabulary, plan)
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
