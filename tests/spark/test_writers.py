"""Writers of one index come one after the other, and none discards what another has published."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard import spark as ms
from tests.spark.frames import TAGS, subscriptions


@pytest.fixture
def index(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark), path, shards=3)
    return path


def test_a_build_that_waited_for_a_writer_does_not_discard_its_version(spark, index, monkeypatch):
    rows, has_begun, looked = subscriptions(spark), threading.Event(), shards.version_before

    def begun_at(path):
        try:
            return looked(path)
        finally:
            has_begun.set()

    monkeypatch.setattr(shards, "version_before", begun_at)
    with ThreadPoolExecutor(1) as pool:
        with shards.new_version(index) as folder:
            waiting = pool.submit(ms.build, rows, index)
            assert has_begun.wait(60)
            base = shards.carry(index, folder)
            shards.publish(index, folder, base.files, base.plan, base.segments)
        with pytest.raises(my.ConflictError, match=r"was at version 0001 .* at 0002 now"):
            waiting.result(120)
    assert ms.build(rows, index).version == "0003"


def test_a_compaction_that_waits_for_a_writer_folds_what_that_published(spark, index):
    with ThreadPoolExecutor(1) as pool:
        with shards.new_version(index) as folder:
            waiting = pool.submit(ms.compact, index, spark=spark)
            time.sleep(0.5)
            removed = pa.table({"subscription": pa.array([None], TAGS), "key": [4]})
            base = shards.carry(index, folder, removed)
            shards.publish(index, folder, base.files, base.plan, base.segments)
        assert waiting.result().version == "0003"
    assert my.open(index).match_one("oslo") == [3]
