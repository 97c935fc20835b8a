"""A real cluster: everything works on it, and kills at bad moments change no pair and leave nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from tests.spark.cluster import Cluster, running
from tests.spark.cluster_job import COPIES

JOB = Path(__file__).with_name("cluster_job.py")
ROOT = Path(__file__).parents[2]
SIZE = 400_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]]]:
    """Subscriptions and events in files, and the pairs that the embedded index finds."""
    folder = tmp_path_factory.mktemp("data")
    workload = my.workload("tags", "twitter", SIZE)
    tags, keys = workload.subscriptions(0, SIZE)
    events = workload.events(2_000)
    for name in ("subscriptions", "events"):
        (folder / name).mkdir()
    pq.write_table(pa.table({"tags": tags, "key": keys}), folder / "subscriptions/0.parquet")
    table = pa.table({"id": range(len(events)), "tags": events})
    pq.write_table(table, folder / "events/0.parquet", row_group_size=500)
    matches = my.TagIndex().add_many(tags, keys).consolidate().match(events).to_arrow()
    pairs = zip(matches["event"].to_pylist(), matches["key"].to_pylist(), strict=True)
    return folder, sorted(map(list, pairs))


def start(
    cluster: Cluster, folder: Path, what: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with (cluster.folder / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(JOB), cluster.url, str(folder), what],
            stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            env={**cluster.environment, **(environment or {})},
        )  # fmt: skip


def result(job: subprocess.Popen[bytes], cluster: Cluster) -> dict[str, Any]:
    out, _ = job.communicate(timeout=300)
    assert job.returncode == 0, (cluster.folder / "driver.log").read_text()[-3000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def wait_for(seen: Callable[[], Any], job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not seen():
        assert job.poll() is None, "the job ended before the moment came"
        assert time.monotonic() < deadline
        time.sleep(0.002)


def scratch(folder: Path, pattern: str) -> list[Path]:
    return list((folder / "a.index/versions").glob(f".writing-*/scratch/*/{pattern}"))


def fresh(data: tuple[Path, Any], tmp_path: Path) -> Path:
    for name in ("subscriptions", "events"):
        (tmp_path / name).symlink_to(data[0] / name)
    return tmp_path


def left_over(folder: Path) -> list[str]:
    return [entry.name for entry in (folder / "a.index/versions").iterdir()]


def test_everything_works_on_a_cluster(data, tmp_path):
    folder = fresh(data, tmp_path)
    with running(tmp_path / "cluster") as cluster:
        found = result(start(cluster, folder, "everything"), cluster)
    assert found.pop("subscriptions") == SIZE
    assert set(found) == {"replicated", "sharded", "files", "streamed"}
    assert all(pairs == data[1] for pairs in found.values())


def pack_environment(folder: Path) -> None:
    """Install Matchyard's wheel into an empty environment, and pack that: the steps of docs/platforms.md."""

    def run(*words: str | Path) -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    [wheel] = folder.glob("matchyard-*.whl")
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment)
    run(environment / "bin/pip", "install", "--quiet", wheel, "pandas<3", "venv-pack")
    packed = folder / "environment.tar.gz"
    run(environment / "bin/venv-pack", "--prefix", environment, "--output", packed)


def test_workers_without_matchyard_get_a_packed_environment(data, tmp_path):
    folder = fresh(data, tmp_path)
    pack_environment(folder)
    with running(tmp_path / "cluster", is_bare=True) as cluster:
        packed = {"PYSPARK_PYTHON": "./environment/bin/python"}
        job = start(cluster, folder, "packed", {**packed, "PYTHONPATH": os.pathsep.join(sys.path)})
        found = result(job, cluster)
    assert found["replicated"] == data[1]
    assert all("/environment/lib/" in origin for origin in found["origins"])
    assert any((folder / "kernels").iterdir())


@pytest.mark.parametrize("moment", ["part*", "dealt", "shards/*/*.npy"])
def test_an_executor_killed_while_files_are_written(data, tmp_path, moment):
    folder = fresh(data, tmp_path)
    with running(tmp_path / "cluster") as cluster:
        job = start(cluster, folder, "executor")
        wait_for(lambda: scratch(folder, moment), job)
        cluster.executors()[0].kill()
        assert result(job, cluster)["replicated"] == data[1]
    assert left_over(folder) == ["0001"]


def test_an_executor_killed_while_match_files_writes(data, tmp_path):
    folder = fresh(data, tmp_path)
    with running(tmp_path / "cluster") as cluster:
        job = start(cluster, folder, "files")
        wait_for(lambda: list(folder.glob("out/.files.writing-*/tasks/*")), job)
        cluster.executors()[0].kill()
        assert result(job, cluster)["files"] == sorted(COPIES * data[1])
    assert [entry.name for entry in (folder / "out").iterdir()] == ["files"]


def test_a_worker_killed_during_a_build(data, tmp_path):
    folder = fresh(data, tmp_path)
    with running(tmp_path / "cluster") as cluster:
        job = start(cluster, folder, "worker")
        wait_for(lambda: scratch(folder, "part*"), job)
        cluster.kill_worker()
        assert result(job, cluster)["replicated"] == data[1]
    assert left_over(folder) == ["0001"]


def test_speculative_copies_of_tasks_do_no_harm(data, tmp_path):
    folder = fresh(data, tmp_path)
    with running(tmp_path / "cluster") as cluster:
        assert result(start(cluster, folder, "speculation"), cluster)["replicated"] == data[1]
    assert sorted((folder / "attempts").read_text().split()) == ["0", "1"]
    assert left_over(folder) == ["0001"]


def test_a_driver_killed_during_a_build_leaves_the_old_version_and_nothing_for_long(data, tmp_path):
    folder = fresh(data, tmp_path)
    my.TagIndex().add("jazz", 7).save(folder / "a.index")
    with running(tmp_path / "cluster") as cluster:
        job = start(cluster, folder, "driver")
        wait_for(lambda: scratch(folder, "dealt"), job)
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        assert my.open(folder / "a.index").match(["jazz"])[0] == [7]
        assert result(start(cluster, folder, "again"), cluster)["replicated"] == data[1]
    assert sorted(left_over(folder)) == ["0001", "0002"]
