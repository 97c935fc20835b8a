"""A stream whose driver is killed again and again writes what one batch run finds, each row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from tests.spark.frames import TAGS, found

PER_FILE = 20
LATE = 8  # files that come after the last kill, so that there is something left, whenever that was
EVERYTHING = 1 << 40  # keys whose subscription has no tags
JOB = Path(__file__).with_name("stream_job.py")


def n_committed(folder: Path) -> int:
    """Micro-batches that Spark has written off as done."""
    commits = folder / "checkpoint" / "commits"
    return sum(entry.name.isdigit() for entry in commits.iterdir()) if commits.exists() else 0


def write(folder: Path, rows: list[Any], numbers: range) -> None:
    """Some of the files of events."""
    for number in numbers:
        some = range(number * PER_FILE, (number + 1) * PER_FILE)
        table = pa.table({"id": list(some), "tags": pa.array([rows[n] for n in some], TAGS)})
        pq.write_table(table, folder / "in" / f"{number:04}.parquet")


def start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(JOB), str(folder)],
            stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(my.__file__).parent.parent)},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("n_files", "n_kills"), [(60, 1), pytest.param(200, 5, marks=pytest.mark.slow)]
)
def test_killed_drivers_lose_nothing_and_repeat_nothing(spark, tmp_path, n_files, n_kills):
    workload = my.workload("tags", "peers", 2000)
    tags, keys = workload.subscriptions(0, 2000)
    index = my.TagIndex().add_many(tags, keys).save(tmp_path / "a.index")
    (tmp_path / "in").mkdir()
    rows = workload.events(n_files * PER_FILE).to_pylist()
    rows[:: 10 * PER_FILE] = [None] * (n_files // 10)  # a bad event in every tenth file
    write(tmp_path, rows, range(n_files - LATE))

    chance, log = random.Random(7), tmp_path / "log"
    for kill in range(n_kills):
        job = start(tmp_path)
        enough = n_committed(tmp_path) + chance.randrange(1, 3 if n_kills < 5 else 4)
        while n_committed(tmp_path) < enough and job.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.random())
        assert job.poll() is None, f"the stream ended before kill {kill}: {log.read_text()[-2000:]}"
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        # From here on everything matches one subscription more: a replay must not see it.
        my.open(tmp_path / "a.index").add([], EVERYTHING + kill).save(tmp_path / "a.index")
    write(tmp_path, rows, range(n_files - LATE, n_files))
    job = start(tmp_path)
    assert job.wait(timeout=180) == 0, log.read_text()[-4000:]

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
