"""Which old versions stay, in a folder and in an object store."""

from __future__ import annotations

import time
from typing import Any

import pytest

import matchyard as my
from matchyard import shards
from matchyard.storage import leases, versions
from tests.storage.published import kept, publish


def test_versions_stay_by_number_and_by_time(path, monkeypatch):
    publish(path, 1)
    shards.retain(path, versions=3)
    publish(path, 4)
    assert kept(path) == ["0003", "0004", "0005"]
    shards.retain(path, versions=1, seconds=100)
    publish(path, 2)
    assert kept(path) == ["0005", "0006", "0007"]
    late = time.time() + 101
    monkeypatch.setattr(leases.time, "time", lambda: late)
    publish(path, 1)
    assert kept(path) == ["0007", "0008"]
    shards.retain(path, versions=1)  # what was to stay for 100 seconds may go
    publish(path, 1)
    assert kept(path) == ["0009"]
    for wrong in (
        {"versions": 0},
        {"versions": 2.5},
        {"versions": "3"},
        {"seconds": -1.0},
        {"seconds": "1"},
        {"versions": True},
    ):
        with pytest.raises(my.UsageError, match="at least"):
            shards.retain(path, **wrong)


def test_a_version_stays_for_its_time_though_its_successor_was_not_tidied_after(path, monkeypatch):
    publish(path, 1)
    shards.retain(path, versions=1, seconds=100)
    with monkeypatch.context() as killed:
        killed.setattr(versions, "tidy", lambda *given: None)
        publish(path, 1)
    publish(path, 1)
    assert kept(path) == ["0001", "0002", "0003"]


def test_a_version_that_is_gone_is_named(path):
    publish(path, 4)
    with pytest.raises(my.StorageError, match=r"has no version 0001.* the current one is 0004"):
        shards.manifest_of(path, "0001")


def test_damage_costs_the_lease_and_not_the_index(tmp_path, caplog):
    path = tmp_path / "a.index"
    publish(path, 1)
    (path / "leases").mkdir()
    (path / "leases" / "0001-x").write_text("soon")
    (path / "leases" / "other").write_text("1")
    (path / "leases" / "0001-y").write_text("9" * 100)
    (path / "retention.json").write_text("[]")
    publish(path, 3)
    assert my.open(path).match(["jazz"])[0] == [1]
    assert "retention.json is damaged" in caplog.text
    assert len(kept(path)) == 4
    (path / "retention.json").unlink()
    publish(path, 1)
    assert kept(path) == ["0004", "0005"]


def test_leases_of_others_that_cannot_be_removed_do_not_keep_old_versions(tmp_path, monkeypatch):
    path = tmp_path / "a.index"
    publish(path, 1)
    leases.take(path, "0001", "other", -2 * leases.LEASE_S)

    def refuse(*given: Any) -> None:
        raise PermissionError("somebody else's")

    monkeypatch.setattr(leases, "_remove", refuse)
    publish(path, 3)
    assert kept(path) == ["0003", "0004"]
    leases.take(path, "0004", "odd", float("nan"))
    assert leases.leased(path) == set()


def test_a_version_that_is_leased_while_a_writer_removes_it_stays(path, monkeypatch):
    publish(path, 2)
    found, taken = leases.leased, []

    def leased_late(place: Any) -> set[str]:
        seen = found(place)
        if not taken:  # just after the writer looked
            taken.append(shards.hold_version(path, 1))
        return seen

    monkeypatch.setattr("matchyard.storage.retention.leased", leased_late)
    publish(path, 1)
    assert "0001" in kept(path)
    assert shards.manifest_of(path, "0001")
    monkeypatch.setattr("matchyard.storage.retention.leased", found)
    publish(path, 1)
    assert my.open(path, version="0001").match(["jazz"])[0] == [1]


def test_hidden_versions_come_back_if_leases_cannot_be_read(tmp_path, monkeypatch):
    path, found, asked = tmp_path / "a.index", leases.leased, []
    publish(path, 2)

    def unreadable(place: Any) -> set[str]:
        asked.append(place)
        if len(asked) == 2:
            raise OSError("unreadable")
        return found(place)

    monkeypatch.setattr("matchyard.storage.retention.leased", unreadable)
    publish(path, 1)
    assert kept(path) == ["0001", "0002", "0003"]


def test_retention_needs_an_index(path):
    with pytest.raises(my.UsageError, match="is no index: it has no file CURRENT"):
        shards.retain(path)


def test_versions_may_be_named_by_numbers(path):
    publish(path, 3)
    assert shards.hold_version(path, 2).version == "0002"
    for wrong in (1, -3, True, "2", "../x"):
        with pytest.raises(my.StorageError, match=r"has no version|not a version"):
            shards.hold_version(path, wrong)
