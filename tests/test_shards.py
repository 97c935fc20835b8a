"""A distributed build answers as one build over everything does."""

from __future__ import annotations

import json

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
    vocabulary = shards.merge([shards.count(tags, plan) for tags, _ in parts])
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
    vocabulary = shards.merge([shards.count(tags, plan) for tags, _ in PARTS])
    assert vocabulary.name(0) == "jazz"
    assert vocabulary.counts().tolist() == sorted(vocabulary.counts().tolist(), reverse=True)
    assert vocabulary.counts()[0] == 4


def test_what_was_not_counted_is_refused(tmp_path):
    plan = shards.Plan()
    vocabulary = shards.merge([shards.count([{"jazz"}], plan)])
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
