"""Tasks match on the GPU that Spark gives them, and on the CPU where there is none to be used."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import matchyard as my
import matchyard.spark as ms
from matchyard import shards
from matchyard.gpu import devices as cards
from matchyard.spark import devices, sql
from matchyard.spark.tasks import job
from tests.spark.frames import EVENTS, ROWS, events, wanted

ROOT = Path(__file__).parents[2]


class Task:
    """What a task is told of its resources."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)

    def resources(self) -> dict[str, Any]:
        return {"gpu": self} if self._addresses else {}

    @property
    def addresses(self) -> list[str]:
        return self._addresses

    def getLocalProperty(self, name):
        return None  # it belongs to no query


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    """A worker process that has opened nothing and said nothing, on a machine without CuPy."""

    def no_cupy():
        raise my.DeviceError("a GPU needs CuPy, which is not installed")

    monkeypatch.setattr(job, "_opened", type(job._opened)())
    monkeypatch.setattr(cards, "the_cupy", no_cupy)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that what is set meanwhile is undone
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    devices._say_once.cache_clear()
    yield
    devices._say_once.cache_clear()


@pytest.fixture
def task(monkeypatch):
    """Become a task with GPUs of these addresses."""

    def become(*addresses):
        monkeypatch.setattr(devices.TaskContext, "get", lambda: Task(*addresses))

    become()
    return become


def saved(folder, algorithm="rarest"):
    index = my.TagIndex(algorithm).add_many(ROWS, range(len(ROWS))).consolidate()
    index.save(folder / "a.index")
    path = str(folder / "a.index")
    return path, shards.current_version(path)


@pytest.fixture
def on_cards(monkeypatch):
    """Cards that can be used, by indexes that stay on the CPU; says what was opened where."""
    opened, usual = [], shards.open_shards

    def open_shards(path, version, wanted, cards):
        opened.append((cards, wanted, os.environ.get("CUDA_VISIBLE_DEVICES")))
        index = usual(path, version, wanted)
        index._state.settings = index._settings._replace(device=cards)
        return index

    monkeypatch.setattr(shards, "open_shards", open_shards)
    return opened


def test_a_task_with_a_gpu_uses_it_and_another_does_not(task, on_cards, tmp_path):
    saved_as = saved(tmp_path)
    job.open_index(*saved_as, "auto")
    task("3", "4")
    job.open_index(*saved_as, "auto")
    job.open_index(*saved_as, "cpu")
    assert on_cards == [("cpu", None, None), ("gpu", None, "3")]


def test_tasks_of_a_worker_share_what_is_on_the_card(task, on_cards, tmp_path):
    saved_as = saved(tmp_path)
    task("0")
    first = job.open_index(*saved_as, "gpu", 0)
    assert job.open_index(*saved_as, "auto", 0) is first
    assert on_cards == [("gpu", [0], "0")]


def test_a_job_that_must_have_a_gpu_does_not_get_what_another_put_up_with(task, tmp_path):
    saved_as = saved(tmp_path)
    task("0")
    assert job.open_index(*saved_as, "auto").device == "cpu"
    with pytest.raises(my.DeviceError, match="CuPy"):
        job.open_index(*saved_as, "gpu")
    assert job.open_index(*saved_as, "auto").device == "cpu"


@pytest.mark.parametrize(
    ("shown", "address", "card"),
    [
        ("GPU-ab", "0", "GPU-ab"),
        ("0,1,2,3", "2", "2"),
        ("GPU-ab,GPU-cd", "GPU-cd", "GPU-cd"),
        ("4,5", "1", "5"),
        ("-1", "7", "-1"),  # none is to be used
        ("", "0", ""),
    ],
)
def test_of_the_cards_that_the_cluster_shows_a_task_takes_its_own(
    shown, address, card, task, on_cards, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    task(address)
    job.open_index(*saved(tmp_path), "gpu")
    assert on_cards == [("gpu", None, card)]


def test_a_worker_stays_with_its_card(task, on_cards, tmp_path, monkeypatch):
    saved_as = saved(tmp_path)
    task("3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,4")
    job.open_index(*saved_as, "gpu", 0)
    monkeypatch.setitem(sys.modules, "cupy", None)  # it has looked for cards
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,4")
    task("4")
    job.open_index(*saved_as, "gpu", 1)
    assert [card for *_, card in on_cards] == ["3", "2,3,4"]


def test_a_card_is_shown_to_a_worker_that_has_imported_cupy(task, on_cards, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    task("3")
    job.open_index(*saved(tmp_path), "gpu")
    assert on_cards == [("gpu", None, "3")]


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [("rarest", "needs CuPy"), ("prefix_tree", "does not run on device 'gpu'")],
)
def test_a_gpu_that_cannot_be_used_is_said_once(algorithm, reason, task, tmp_path, caplog):
    path, version = saved(tmp_path, algorithm)
    task("0")
    with caplog.at_level(logging.WARNING, "matchyard"):
        for shard in (None, 0):
            assert job.open_index(path, version, "auto", shard).device == "cpu"
    (said,) = caplog.messages
    assert "matching on the CPU, though Spark has given this task GPU 0" in said
    assert reason in said


def test_what_is_missing_is_named_where_a_gpu_must_be(task, tmp_path):
    saved_as = saved(tmp_path)
    with pytest.raises(my.DeviceError, match=r"spark\.task\.resource\.gpu\.amount"):
        job.open_index(*saved_as, "gpu")
    task("0")
    with pytest.raises(my.DeviceError, match="needs CuPy"):
        job.open_index(*saved_as, "gpu")


def test_the_table_function_asks_for_the_same(task, on_cards, tmp_path):
    path, _ = saved(tmp_path)
    task("0")
    rows = pa.record_batch({"id": pa.array([0]), "tags": pa.array([["jazz"]])})
    for on in ("auto", "cpu"):
        assert list(sql.match_rows("query", "bigint", False, False, on, rows, path))
    assert [where for where, *_ in on_cards] == ["gpu", "cpu"]


def test_an_algorithm_without_kernels_is_refused_by_the_plan(spark, tmp_path):
    path, _ = saved(tmp_path, "prefix_tree")
    with pytest.raises(my.DeviceError, match="prefix_tree, does not run on a GPU; of tags, rarest"):
        ms.match(events(spark), path, device="gpu")
    with pytest.raises(my.UsageError, match="device is 'tpu'; expected one of: auto, cpu, gpu"):
        ms.match(events(spark), path, device="tpu")


def test_a_job_without_gpus_matches_on_the_cpu_or_says_so(spark, tmp_path):
    path, _ = saved(tmp_path)
    with pytest.raises(Exception, match="Spark has given this task no GPU"):
        ms.match(events(spark), path, device="gpu").collect()
    assert ms.match(events(spark), path).count() == sum(wanted().values())


@pytest.mark.slow
def test_a_cluster_deals_out_its_gpu(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.gpu_cluster", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["gpus"] == ["7"]
    assert sorted(map(tuple, told["pairs"])) == sorted(wanted(ROWS, EVENTS).elements())
    assert "CuPy" in told["error"]
