"""The records of a journal: what a reader sees of a file that is damaged, torn, forged, or of another boot."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from matchyard.errors import StorageError, UsageError
from matchyard.storage import Journal, read_whole, records
from tests.storage.test_journal import HEAD, journal_of
from tests.torture.damage import read
from tests.torture.disk import boots, quiet


def test_a_file_that_was_written_whole_may_not_end_early_or_late(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal.create(path, [b"one", b"two"]).close()
    data = path.read_bytes()
    for wrong in (data[:-1], data + b"x", data[: HEAD - 1], b""):
        path.write_bytes(wrong)
        with pytest.raises(StorageError, match="damaged"):
            list(read_whole(path))
    with pytest.raises(StorageError, match="No such file"):
        read(tmp_path / "k")
    with pytest.raises(StorageError, match="cannot be written: No such file"):
        Journal.create(tmp_path / "folder" / "j")


def test_damage_is_named_with_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal_of(path, b"one", b"two", b"three", b"four").close()
    data = path.read_bytes()
    at = data.index(b"two")
    path.write_bytes(data[:at] + b"tvo" + data[at + 3 :])
    with pytest.raises(
        StorageError,
        match=r"byte 87: expected record 2 there\. The 1 records before it are whole, and 2 behind it \(3 to 4\)",
    ):
        read(path)
    assert path.stat().st_size == len(data)


@pytest.mark.parametrize("is_salt_known", [False, True])
def test_no_part_of_a_body_looks_like_a_record(tmp_path: Path, is_salt_known: bool) -> None:
    path = tmp_path / "j"
    with boots(tmp_path) as start, quiet() as said:
        journal = Journal.create(path)
        salt = path.read_bytes()[8:24] if is_salt_known else bytes(16)
        planted = records.Checks(salt).framed(9, 8, b"planted")
        journal.append([b"one", planted * 3 + bytes(1000)])
        journal.close()
        os.truncate(path, journal.size_bytes - 100)
        start()
        if is_salt_known:  # the attack has its point
            with pytest.raises(StorageError, match="3 behind it"):
                read(path)
        else:
            assert read(path) == [b"one"]
            assert len(said) == 1


def test_a_file_of_an_earlier_boot_takes_no_records(tmp_path: Path) -> None:
    with boots(tmp_path) as start, quiet() as said:
        journal_of(tmp_path / "j", b"one").close()
        start()
        found = list[bytes]()
        journal = Journal.open(tmp_path / "j", found.append)
        assert found == [b"one"]
        assert not journal.is_of_this_boot
        with pytest.raises(StorageError, match="of an earlier boot; begin a new file"):
            journal.append([b"two"])
        journal.close()
        (tmp_path / "boot_id").unlink()  # a system without ids: nothing is known of the boot
        journal_of(tmp_path / "k", b"one").close()
        with (tmp_path / "k").open("ab") as file:
            file.write(bytes(100))
        journal = Journal.open(tmp_path / "k", found.append)
        assert not journal.is_of_this_boot
        journal.close()
        assert len(said) == 1


def test_what_is_cut_off_is_added_to_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal_of(path, b"one").close()
    with quiet() as said:
        for torn in (b"ab", b"cde"):
            with path.open("ab") as file:
                file.write(torn)
            assert read(path) == [b"one"]
    assert (tmp_path / "j.cut").read_bytes() == b"abcde"
    assert "3 bytes from byte 87 on are cut off and kept in j.cut" in said[1]
    assert os.stat(tmp_path / "j.cut").st_mode & 0o777 == 0o600


def test_memory_is_bounded_by_the_largest_record(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal.create(path, (bytes(100_000) for _ in range(100))).close()
    assert peak_of(path) > 100_000
    with path.open("r+b") as file:  # a length of 4 GB, behind which all other records lie
        file.seek(HEAD + 4)
        file.write(b"\xff")
    with pytest.raises(StorageError, match="99 behind it"):
        peak_of(path)


def peak_of(path: Path) -> int:
    """The most bytes that are taken at a time while a journal is opened; never many for one of 10 MB."""
    tracemalloc.start()
    try:
        Journal.open(path, lambda body: None).close()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3_000_000
    return peak


def test_a_body_has_a_most_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_BYTES", 5)
    with pytest.raises(UsageError, match="a record of 6 bytes; expected at most 5"):
        journal_of(tmp_path / "j", b"123456")
