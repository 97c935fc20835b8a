"""Leases: a reader keeps its version, in a folder and in an object store."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matchyard as my
from matchyard import shards
from matchyard.storage import leases, versions
from matchyard.storage.stream_versions import version_of_batch
from tests.storage.published import kept, publish


def test_a_leased_version_stays_until_its_lease_runs_out(path, monkeypatch):
    publish(path, 1)
    use = shards.hold_current(path)
    publish(path, 4)
    assert kept(path) == ["0001", "0004", "0005"]
    assert my.open(path, version="0001").match(["jazz"])[0] == [1]
    shards.release(use)
    publish(path, 1)
    assert kept(path) == ["0001", "0005", "0006"]  # plans that were derived still need it
    late = time.time() + leases.LEASE_S + 1
    monkeypatch.setattr(leases.time, "time", lambda: late)
    publish(path, 1)
    assert kept(path) == ["0006", "0007"]
    monkeypatch.setattr(leases.time, "time", lambda: late + leases.LEASE_S)
    assert leases.leased(path) == set()
    assert leases._names(path) == []


def test_a_lease_does_not_leave_the_index(tmp_path):
    path = tmp_path / "a.index"
    publish(path, 1)
    (tmp_path / "elsewhere").mkdir()
    (path / "leases").symlink_to(tmp_path / "elsewhere")
    shards.release(shards.hold_current(path))  # reading goes on without a lease
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_reader_that_may_not_write_has_no_lease_and_reads(tmp_path, monkeypatch):
    path = tmp_path / "a.index"
    publish(path, 1)

    def refuse(*given: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(leases, "write_small", refuse)
    assert versions.hold_current(path).version == "0001"


def test_a_version_that_is_replaced_while_it_is_leased_is_left(tmp_path, monkeypatch):
    path = tmp_path / "a.index"
    publish(path, 1)
    take = leases.take
    published = []

    def take_late(*given: Any) -> None:
        take(*given)
        if not published:
            published.append(True)
            publish(path, 3)

    monkeypatch.setattr(leases, "take", take_late)
    assert shards.hold_current(path).version == "0004"


def test_a_forked_child_holds_leases_of_its_own(tmp_path):
    path = tmp_path / "a.index"
    publish(path, 1)
    shards.hold_current(path)
    child = os.fork()
    if child == 0:
        shards.hold_current(path)
        os._exit(0)
    os.waitpid(child, 0)
    assert len(leases._names(path)) == 2


def test_leases_are_renewed(tmp_path, monkeypatch):
    path = str(tmp_path / "a.index")
    publish(path, 1)
    monkeypatch.setattr(leases, "_RENEW_S", 0.0)
    lease = shards.hold_version(path, 1)
    [name] = leases._names(path)
    file = Path(path) / "leases" / name
    file.write_text("0\n")
    shards.renew(lease)
    assert float(file.read_text()) > time.time() + leases.LEASE_S / 2
    late = time.time() + leases.LEASE_S + 100
    file.write_text(f"{late:.0f}\n")
    shards.renew(lease)
    assert float(file.read_text()) == float(f"{late:.0f}")  # somebody else has renewed it


def test_tasks_renew_the_lease_of_their_driver(tmp_path, monkeypatch):
    path = str(tmp_path / "a.index")
    publish(path, 1)
    lease = shards.hold_current(path)
    [name] = leases._names(path)
    file = Path(path) / "leases" / name
    file.write_text("0\n")
    monkeypatch.setattr(leases, "_process", leases._Process(id=os.getpid()))  # as in a worker
    shards.renew(pickle.loads(pickle.dumps(lease)))
    assert leases._names(path) == [name]
    assert float(file.read_text()) > time.time() + leases.LEASE_S / 2


HOLDS = """
import os, sys
from matchyard import shards
shards.hold_current(sys.argv[1])
print(len(os.listdir(sys.argv[1] + "/leases")))
if len(sys.argv) > 2: os._exit(0)
"""


def test_a_process_removes_its_leases_at_its_end_and_old_ones_at_its_start(tmp_path, monkeypatch):
    path = str(tmp_path / "a.index")
    publish(path, 1)

    def held(*given: str) -> int:
        """Leases while a process holds one."""
        done = subprocess.run(
            [sys.executable, "-c", HOLDS, path, *given], check=True, capture_output=True
        )
        return int(done.stdout)

    assert held() == 1
    assert leases._names(path) == []
    assert [held("crash") for _ in range(3)] == [1, 2, 3]
    for name in leases._names(path):
        (Path(path) / "leases" / name).write_text(f"{time.time() - leases.LEASE_S - 1:.0f}\n")
    assert held() == 1
    assert leases._names(path) == []


def test_queries_in_sql_that_run_side_by_side_keep_their_records(tmp_path, monkeypatch):
    path = tmp_path / "a.index"
    publish(path, 1)
    query = f"{shards.OF_SQL}abc"
    assert version_of_batch(path, query, 5) == "0001"
    publish(path, 1)
    for number in range(6, 120):
        version_of_batch(path, query, number)
    assert version_of_batch(path, query, 5) == "0001"
    record = path / "streams" / query / "000000005"
    os.utime(record, (time.time() - 3000,) * 2)
    version_of_batch(path, query, 5)  # a task of a long query
    assert record.stat().st_mtime > time.time() - 100
    os.utime(record, (time.time() - 4000,) * 2)
    version_of_batch(path, query, 120)
    assert not record.exists()


def test_who_may_write_to_an_index_may_write_its_leases(tmp_path):
    path = tmp_path / "a.index"
    publish(path, 1)
    path.chmod(0o2775)
    shards.hold_current(path)
    assert (path / "leases").stat().st_mode & 0o7777 == 0o2775


def test_a_reader_that_may_not_write_asks_now_and_then(tmp_path, monkeypatch):
    path, asked = tmp_path / "a.index", []
    publish(path, 1)

    def refuse(*given: Any) -> None:
        asked.append(given)
        raise PermissionError("read-only")

    monkeypatch.setattr(leases, "write_small", refuse)
    lease = shards.hold_current(path)
    for _ in range(10):
        shards.renew(lease)
    assert len(asked) == 1


def test_leases_are_renewed_though_nobody_knows_whether_the_process_is_busy(tmp_path, monkeypatch):
    path = tmp_path / "a.index"
    publish(path, 1)
    kept_one, let_go = shards.hold_current(path), shards.hold_current(path)

    def fail() -> bool:
        raise ConnectionError("the JVM has ended")

    monkeypatch.setattr(leases._process, "is_busy", fail)
    shards.let_go(let_go)
    renewed: list[Any] = []
    monkeypatch.setattr(leases, "renew", renewed.append)
    leases.renew_held()
    assert kept_one in renewed
    assert let_go not in renewed
    monkeypatch.setattr(leases._process, "is_busy", lambda: True)
    leases.renew_held()
    assert let_go in renewed
    shards.release(kept_one)
    shards.release(let_go)
