"""The folder of a router's state: what was accepted is in it, and damage is refused."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path
from random import Random

import pytest

from matchyard.errors import StorageError
from matchyard.network import old_state
from matchyard.network.packet import Packet
from matchyard.network.peers import Input, InputKind
from matchyard.network.station import Station
from matchyard.network.station_log import StationLog
from tests.golden.make_router_state import make
from tests.network.test_station import ADA, SETTINGS, TAIL, news, wish
from tests.torture.disk import Disk, boots, quiet

GOLDEN = Path(__file__).parents[1] / "golden"


def opened(folder: Path) -> Station:
    log = StationLog(folder, "b", SETTINGS)
    log.close()
    return log.station


def contents(station: Station) -> tuple[list[list[str]], list[bytes]]:
    """What applications asked for, and what waits for one of them."""
    wanted = sorted(sorted(tags) for _, tags in station.router.applications)
    packets = [Packet.from_bytes(message[1:]) for message in station.sessions[TAIL].kept]
    return wanted, [packet.payload for packet in packets]


EVERYTHING = ([["jazz"], ["live", "oslo"]], [b"one", b"two"])
WITHOUT_LAST = (EVERYTHING[0], [b"one"])


def begun(folder: Path) -> StationLog:
    log = StationLog(folder, "b", SETTINGS)
    log.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    return log


@pytest.mark.parametrize("name", ["router-state-1", "router-state-2"])
def test_a_golden_state_is_read_and_written_anew(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "state"
    shutil.copytree(GOLDEN / name, folder)
    with boots(tmp_path):
        for _ in range(2):
            assert contents(opened(folder)) == EVERYTHING
            assert {file.name for file in folder.iterdir()} == {"checkpoint-3", "log-3", "lock"}
            assert not old_state.is_old(folder / "checkpoint-3")


def test_an_old_state_that_is_torn_is_kept_and_a_damaged_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(name: str, data: bytes) -> Path:
        shutil.copytree(GOLDEN / "router-state-1", tmp_path / name)
        (tmp_path / name / "log-2").write_bytes(data)
        return tmp_path / name

    whole = (GOLDEN / "router-state-1" / "log-2").read_bytes()
    length = 12 + int.from_bytes(whole[:4], "big")  # of the first record
    with quiet() as said:
        torn = copied("torn", whole[:-1])
        assert contents(opened(torn)) == WITHOUT_LAST
        assert (torn / "log-2.cut").read_bytes() == whole[length:-1]
        assert "log-2.cut" in said[0]
        with pytest.raises(StorageError, match="log-2 is damaged at byte 0"):
            opened(copied("damaged", b"\xff" + whole[1:]))
        # The first record, whole, in the body of one that is torn.
        planted = b"\0\0\xff\xff" + whole[4:8]
        planted += zlib.crc32(planted).to_bytes(4, "big") + whole[:length]
        assert contents(opened(copied("planted", whole + planted))) == EVERYTHING
        monkeypatch.setattr(old_state, "_is_short", lambda data, at: False)
        with pytest.raises(StorageError, match="damaged"):  # as it was
            opened(copied("again", whole + planted))


def test_a_changed_byte_of_a_state_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "state")
    for file in ("log-2", "checkpoint-2"):
        path = tmp_path / "state" / file
        whole = path.read_bytes()
        for at in range(0, len(whole), 1 if file == "log-2" else 29):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 + at % 255)]) + whole[at + 1 :])
            with pytest.raises(StorageError, match=f"{file} is damaged"):
                opened(tmp_path / "state")
        path.write_bytes(whole)
    path.write_bytes(whole + whole[-9:])  # of the checkpoint, whose end no kill can tear
    with pytest.raises(StorageError, match="checkpoint-2 is damaged"):
        opened(tmp_path / "state")
    path.write_bytes(whole)
    assert contents(opened(tmp_path / "state")) == EVERYTHING


def test_a_changed_byte_of_an_old_log_lost_its_last_record(tmp_path: Path) -> None:
    """The attack of the test before reaches its point: these files cannot tell damage from a torn end."""
    path = tmp_path / "log"
    whole = (GOLDEN / "router-state-1" / "log-2").read_bytes()
    with quiet() as said:
        for at in range(12 + int.from_bytes(whole[:4], "big"), len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert len(list(old_state.records(path, is_log=True))) == 1
    assert len(said) > 60


def test_a_payload_that_looks_like_a_record_keeps_no_router_from_starting(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    log = begun(folder)
    planted = (folder / "log-1").read_bytes()[48:]  # more than a client can know
    log.process([Input(ADA, InputKind.MESSAGE, 1, news("jazz", payload=planted + bytes(9000)))])
    log.close()
    os.truncate(folder / "log-1", os.path.getsize(folder / "log-1") - 5000)
    with boots(tmp_path), quiet() as said:
        assert len(opened(folder).router.applications) == 1
    assert "log-1.cut" in said[0]


def test_after_a_boot_a_torn_log_is_kept_and_a_new_one_begins(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with boots(tmp_path) as start, quiet() as said:
        begun(folder).close()
        whole = (folder / "log-1").read_bytes()
        for number, rest in ((1, b""), (2, bytes(100))):
            (folder / f"log-{number}").write_bytes((folder / f"log-{number}").read_bytes() + rest)
            start()
            assert len(opened(folder).router.applications) == 1
        assert (folder / "log-2.cut").read_bytes() == bytes(100)
        assert {"checkpoint-3", "log-3"} < {file.name for file in folder.iterdir()}
        assert len(said) == 1
        (folder / "log-3").write_bytes(bytes(50) + whole)
        with pytest.raises(StorageError, match="damaged at byte 0"):
            opened(folder)


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    begun(folder).close()
    (folder / "checkpoint-1").rename(tmp_path / "checkpoint")
    with pytest.raises(StorageError, match="log-1, but its checkpoint is missing"):
        opened(folder)
    (tmp_path / "checkpoint").rename(folder / "checkpoint-1")
    (folder / "log-1").unlink()
    with pytest.raises(StorageError, match="log-1 cannot be read: No such file"):
        opened(folder)


def test_only_the_owner_reads_a_state(tmp_path: Path) -> None:
    begun(tmp_path / "state").close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "state").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_takes_nothing_that_was_accepted(tmp_path: Path) -> None:
    log, disk = begun(tmp_path / "state"), Disk(Random(1), fail_write=True)
    with disk.watched(), pytest.raises(StorageError, match="log-1 cannot be written: No space"):
        log.process([Input(ADA, InputKind.MESSAGE, 1, wish("rock"))])
    assert len(log.station.router.applications) == 1
    log.process([Input(ADA, InputKind.MESSAGE, 1, wish("live"))])
    log.close()
    found = opened(tmp_path / "state")
    assert sorted(sorted(tags) for _, tags in found.router.applications) == [["jazz"], ["live"]]


def test_a_checkpoint_that_fails_leaves_the_log_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, left = begun(tmp_path / "state"), [1]

    def fail(folder: Path) -> None:
        left[0] -= 1
        if left[0] < 0:  # the checkpoint has its name, but perhaps not on disk
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr("matchyard.storage.journal.sync_folder", fail)
        with pytest.raises(StorageError, match="checkpoint-2 cannot be written"):
            log.checkpoint()
    log.process([Input(ADA, InputKind.MESSAGE, 1, wish("live"))])
    log.close()
    assert len(opened(tmp_path / "state").router.applications) == 2


@pytest.mark.parametrize("number", range(8))
def test_a_checkpoint_that_stops_anywhere_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    class Killed(BaseException):
        pass

    log, left = begun(tmp_path / "state"), [number]

    def counted(call: object) -> object:
        def wrapped(*given: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return call(*given)  # type: ignore[operator]

        return wrapped

    with monkeypatch.context() as killing:
        for name in ("fsync", "rename", "unlink"):
            killing.setattr(os, name, counted(getattr(os, name)))
        with pytest.raises(Killed):
            log.checkpoint()
    os.close(log._lock)
    assert len(opened(tmp_path / "state").router.applications) == 1


def test_a_synced_router_syncs_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells peers which messages it has, also those that were written just before a kill."""
    begun(tmp_path / "state").close()
    synced = list[str]()
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}"))
    )
    opened(tmp_path / "state")
    assert [Path(one).name for one in synced] == ["log-1"]
