"""A journal: what was appended survives a kill, what was synced survives a power cut, and damage is refused."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from random import Random

import pytest

from matchyard.errors import StorageError
from matchyard.storage import Journal, read_whole, records
from tests.torture import damage
from tests.torture import journal as attacks
from tests.torture.arena import Tally
from tests.torture.damage import read
from tests.torture.disk import Disk

HEAD = records.FILE_HEAD_BYTES


def journal_of(path: Path, *bodies: bytes) -> Journal:
    journal = Journal.create(path)
    journal.append(bodies)
    return journal


def check(tally: Tally, **least: int) -> None:
    assert tally.is_clean, "\n".join(tally.failures[:10])
    for outcome, number in least.items():
        assert tally.outcomes[outcome] >= number, tally


class Blind:
    """A check that any bytes have."""

    def update(self, data: bytes) -> None:
        pass

    def digest(self) -> bytes:
        return b"\x55" * 8


def test_what_was_appended_is_read_in_order_and_goes_on(tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "j", b"one", b"", b"three")
    assert (journal.sequence, journal.append([b"four"])) == (3, 4)
    journal.close()
    found = list[bytes]()
    again = Journal.open(tmp_path / "j", found.append)
    assert found == [b"one", b"", b"three", b"four"]
    assert (again.append([b"five", b"six"]), again.size_bytes) == (
        6,
        os.path.getsize(tmp_path / "j"),
    )
    again.close()
    assert read(tmp_path / "j") == [*found, b"five", b"six"]
    assert os.stat(tmp_path / "j").st_mode & 0o777 == 0o600


# -------------------------------------------------------------------- attacks; the long form is in tests/torture


def test_a_power_cut_takes_nothing_that_was_synced(tmp_path: Path) -> None:
    check(attacks.power_cuts(tmp_path, 1, 0, 300), torn=60, whole=60)


def test_the_power_cuts_reach_their_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:  # as if the machine had not started again
        without.setattr(records, "boot_id", lambda: bytes(16))
        without.setattr("matchyard.storage.journal.boot_id", lambda: bytes(16))
        assert attacks.power_cuts(tmp_path, 1, 0, 300).wrong > 30
    with monkeypatch.context() as without:  # what a failed sync leaves is taken for written
        without.setattr(Journal, "_write_again", lambda self: None)
        assert not attacks.power_cuts(tmp_path, 1, 0, 300).is_clean
    with monkeypatch.context() as without:
        without.setattr(records.Checks, "of", lambda self, data: Blind())
        assert attacks.power_cuts(tmp_path, 1, 0, 300).wrong > 0


def test_a_kill_takes_nothing_that_was_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(attacks.kills(tmp_path, 1, 0, 30), torn=1)
    monkeypatch.setattr(records.Reader, "_is_short", lambda self: False)
    assert attacks.kills(tmp_path, 1, 0, 30).wrong > 0


def test_each_byte_changed_or_doubled_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(damage.changes(tmp_path, 1, 0, 1000), refused=3000, cut=50)
    with monkeypatch.context() as without:  # no record says what was synced before it
        without.setattr(records._Left, "and_one", lambda self, head: self)
        assert damage.changes(tmp_path, 1, 0, 1000).lost > 500
    monkeypatch.setattr(records.Checks, "of", lambda self, data: Blind())
    assert damage.changes(tmp_path, 1, 0, 1000).wrong > 500


def test_an_early_end_keeps_what_lies_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(damage.ends(tmp_path, 1, 1000), torn=1000, refused=2 * HEAD)
    monkeypatch.setattr("matchyard.storage.journal._log.warning", lambda *said: None)
    assert damage.ends(tmp_path, 1, 1000).wrong > 1000


# -------------------------------------------------------------------- writing


def test_a_write_that_fails_is_taken_back_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: Path) -> list[bytes]:
        journal, disk = journal_of(path, b"one"), Disk(Random(3))
        disk.fail_write = True
        with disk.watched(), pytest.raises(StorageError, match="No space left"):
            journal.append([b"two" * 1000, b"three" * 1000])
        assert (journal.append([b"four"]), journal.sequence) == (2, 2)
        journal.close()
        return read(path)

    assert opened(tmp_path / "j") == [b"one", b"four"]
    monkeypatch.setattr(Journal, "_take_back", lambda self: None)
    with pytest.raises(StorageError, match="damaged"):
        opened(tmp_path / "k")


def test_a_write_that_cannot_be_taken_back_is_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, disk = journal_of(tmp_path / "j", b"one"), Disk(Random(3))
    disk.fail_write = disk.fail_sync = True
    with disk.watched(), pytest.raises(StorageError, match="No space left"):
        journal.append([b"two" * 1000])
    with pytest.raises(StorageError, match="could not be taken back: Input/output error"):
        journal.append([b"three"])
    journal.close()
    assert read(tmp_path / "j") == [b"one"]


def test_a_failed_sync_makes_it_refuse_until_it_is_opened_again(tmp_path: Path) -> None:
    journal, disk = journal_of(tmp_path / "j", b"one"), Disk(Random(3), fail_sync=True)
    with disk.watched(), pytest.raises(StorageError, match="Input/output error"):
        journal.sync(1)
    for refused in (lambda: journal.append([b"two"]), lambda: journal.sync(1)):
        with pytest.raises(StorageError, match="takes no more records: it could not be synced"):
            refused()
    journal.close()
    again = Journal.open(tmp_path / "j", lambda body: None)
    again.sync(again.append([b"two"]))
    again.close()
    assert read(tmp_path / "j") == [b"one", b"two"]


def test_threads_that_wait_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, has_begun, may_end, syncs = (
        Journal.create(tmp_path / "j"), threading.Event(), threading.Event(), list[int](),
    )  # fmt: skip

    def sync(file: int) -> None:
        syncs.append(journal.sequence)
        has_begun.set()
        may_end.wait()

    monkeypatch.setattr(os, "fsync", sync)
    threads = [
        threading.Thread(target=lambda: journal.sync(journal.append([b"x"]))) for _ in range(8)
    ]
    threads[0].start()
    has_begun.wait()
    for thread in threads[1:]:
        thread.start()
    while journal.sequence < 8:
        time.sleep(0.001)
    may_end.set()
    for thread in threads:
        thread.join()
    assert syncs == [1, 8]
    journal.close()
    assert read(tmp_path / "j") == [b"x"] * 8


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("bodies", [[], [b"new", b"er"]])
def test_a_file_that_is_begun_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, bodies: list[bytes]
) -> None:
    class Killed(BaseException):
        pass

    def kill(*given: object) -> None:
        raise Killed

    path = tmp_path / "j"
    journal_of(path, b"old").close()
    with monkeypatch.context() as killing:
        killing.setattr(os, call, kill)
        killing.setattr(Path, "unlink", lambda self: None)  # a kill tidies nothing up
        with pytest.raises(Killed):
            Journal.create(path, bodies)
    assert (tmp_path / "j.new").exists()
    assert read(path) == [b"old"]
    for torn in (b"", (tmp_path / "j.new").read_bytes()[:20]):
        (tmp_path / "j.new").write_bytes(torn)
        Journal.create(path, bodies).close()
        assert list(read_whole(path)) == bodies
        assert not (tmp_path / "j.new").exists()
