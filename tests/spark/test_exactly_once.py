"""Streams whose drivers are killed again and again: each pair is written once, each change applied once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from tests.spark.change_feeds import applied, drawn, feed, in_index, in_order
from tests.spark.frames import TAGS, found

PER_FILE = 20
LATE = 8  # files that come after the last kill, so that there is something left, whenever that was
EVERYTHING = 1 << 40  # keys whose subscription has no tags
JOB = Path(__file__).with_name("stream_job.py")


def n_committed(folder: Path) -> int:
    """Micro-batches that Spark has written off as done."""
    commits = folder / "checkpoint" / "commits"
    return sum(entry.name.isdigit() for entry in commits.iterdir()) if commits.exists() else 0


def write(folder: Path, table: Callable[[int], pa.Table], numbers: range) -> None:
    """Some of the files that the stream reads, in the order of their numbers."""
    for number in numbers:
        file = folder / "in" / f"{number:04}.parquet"
        pq.write_table(table(number), file)
        os.utime(file, (1e9 + number,) * 2)  # Spark takes the oldest first


def start(folder: Path, what: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(JOB), str(folder), what],
            stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(my.__file__).parent.parent)},
        )  # fmt: skip


def run(
    folder: Path,
    what: str,
    table: Callable[[int], pa.Table],
    n_files: int,
    n_kills: int,
    publish: Callable[[int], None],
) -> None:
    """Run a stream over all files to its end; kill its driver meanwhile, and publish a version after each kill."""
    (folder / "in").mkdir()
    write(folder, table, range(n_files - LATE))
    chance, log = random.Random(7), folder / "log"
    for kill in range(n_kills):
        job = start(folder, what)
        enough = n_committed(folder) + chance.randrange(1, 3 if n_kills < 5 else 4)
        while n_committed(folder) < enough and job.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.random())
        assert job.poll() is None, f"the stream ended before kill {kill}: {log.read_text()[-2000:]}"
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        publish(kill)
    write(folder, table, range(n_files - LATE, n_files))
    job = start(folder, what)
    assert job.wait(timeout=180) == 0, log.read_text()[-4000:]


def with_everything(folder: Path, kill: int) -> None:
    """Publish a version with one subscription more, which matches every event."""
    my.open(folder / "a.index").add([], EVERYTHING + kill).save(folder / "a.index")


@pytest.mark.parametrize(
    ("n_files", "n_kills"), [(60, 1), pytest.param(200, 5, marks=pytest.mark.slow)]
)
def test_killed_drivers_lose_nothing_and_repeat_nothing(spark, tmp_path, n_files, n_kills):
    workload = my.workload("tags", "peers", 2000)
    tags, keys = workload.subscriptions(0, 2000)
    index = my.TagIndex().add_many(tags, keys).save(tmp_path / "a.index")
    rows = workload.events(n_files * PER_FILE).to_pylist()
    rows[:: 10 * PER_FILE] = [None] * (n_files // 10)  # a bad event in every tenth file

    def table(number: int) -> pa.Table:
        some = range(number * PER_FILE, (number + 1) * PER_FILE)
        return pa.table({"id": list(some), "tags": pa.array([rows[n] for n in some], TAGS)})

    # After a kill everything matches one subscription more: a replay must not see it.
    run(tmp_path, "match", table, n_files, n_kills, partial(with_everything, tmp_path))

    pairs = spark.read.parquet(str(tmp_path / "pairs"))
    version = {}  # of each event and batch
    for row in pairs.select("id", "batch", "version").distinct().collect():
        for what in (("id", row.id), ("batch", row.batch)):
            assert version.setdefault(what, row.version) == row.version
    assert len(set(version.values())) > 1
    good = [(id, row) for id, row in enumerate(rows) if row is not None]
    matches = index.match([row for _, row in good])
    expected = Counter((id, key) for (id, _), some in zip(good, matches) for key in some)
    for what, number in version.items():
        if what[0] == "id":
            expected.update((what[1], EVERYTHING + kill) for kill in range(number - 1))
    assert found(pairs) == expected
    letters = [row.id for row in spark.read.parquet(str(tmp_path / "bad")).collect()]
    assert sorted(letters) == list(range(0, n_files * PER_FILE, 10 * PER_FILE))


@pytest.mark.parametrize(
    ("n_files", "n_kills"), [(40, 1), pytest.param(200, 5, marks=pytest.mark.slow)]
)
def test_killed_drivers_apply_each_change_once(tmp_path, n_files, n_kills):
    """The index ends as the plain table of all changes does, and with the versions of others."""
    my.TagIndex().add_many([["a"], ["b"], ["a", "c"]], [0, 1, 2]).save(tmp_path / "a.index")
    held = in_index(tmp_path / "a.index")
    rows = in_order(drawn(11, n_files * PER_FILE, 2 * n_files))

    def table(number: int) -> pa.Table:
        return feed(rows[number * PER_FILE : (number + 1) * PER_FILE])

    run(tmp_path, "changes", table, n_files, n_kills, partial(with_everything, tmp_path))
    expected = applied(rows, held)
    expected.update((EVERYTHING + kill, frozenset()) for kill in range(n_kills))
    assert in_index(tmp_path / "a.index") == expected
