"""A RIB on disk: it goes on as it was, and files that are none are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import matchyard as my
from matchyard.errors import StorageError
from matchyard.routing import (
    Rib,
    Update,
    saved_ribs,
)
from tests.routing.test_rib import shown


@pytest.mark.parametrize("form", ["tags", "bloom"])
def test_a_saved_rib_goes_on_as_it_was(form: str, tmp_path: Path) -> None:
    rib = Rib([[1, 2], [2]], descriptors=form)
    rib.apply(Update(["a b", "c"]), 0, 1)
    rib.apply(Update(["a", "a"]), 1, 0)
    rib.apply(Update(["d"]), 0, 2)
    rib.apply(Update(removals=["d"]), 0, 2)
    opened = Rib.open(rib.save(tmp_path / "a.rib").save(tmp_path / "a.rib") and tmp_path / "a.rib")
    assert opened.links == rib.links
    assert opened.descriptors == form
    assert len(opened) == 3
    for tree, interface in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        assert Counter(opened.wanted(tree, interface)) == Counter(rib.wanted(tree, interface))
    change = Update(["a", "e"], ["c"])
    assert shown(opened.apply(change, 0, 1)) == shown(rib.apply(change, 0, 1))


def test_an_empty_rib_is_saved_too(tmp_path: Path) -> None:
    Rib([]).save(tmp_path / "a.rib")
    assert len(Rib.open(tmp_path / "a.rib", verify=True)) == 0


def test_an_index_is_no_rib_and_a_rib_is_no_index(tmp_path: Path) -> None:
    my.TagIndex().add("jazz", key=1).save(tmp_path / "an.index")
    with pytest.raises(StorageError, match="not a RIB"):
        Rib.open(tmp_path / "an.index")
    Rib([[1]]).save(tmp_path / "a.rib")
    with pytest.raises(StorageError, match=r"Rib\.open"):
        my.open(tmp_path / "a.rib")


@pytest.mark.parametrize(
    ("field", "change", "reason"),
    [
        ("ids", lambda ids: ids + 9, "values from"),
        ("ids", lambda ids: ids[::-1], "falls within"),
        ("entries", lambda entries: entries + 7, "does not have"),
        ("entries", lambda entries: entries[:-1], "ends with"),
        ("id_start", lambda start: start * 0, "ends with"),
        ("links", lambda links: links * 0, "values from"),
        ("ids", lambda ids: np.array([0, 1, 0, 1], np.int32), "stored twice"),
    ],
)
def test_forged_arrays_are_refused(field, change, reason, tmp_path: Path, monkeypatch) -> None:
    rib = Rib([[1, 2]])
    rib.apply(Update(["a b", "c d"]), 0, 1)
    whole = saved_ribs.table_of

    def forged(*parts):
        table = whole(*parts)
        return table._replace(**{field: change(getattr(table, field))})

    monkeypatch.setattr(saved_ribs, "table_of", forged)
    rib.save(tmp_path / "a.rib")
    with pytest.raises(StorageError, match=reason):
        Rib.open(tmp_path / "a.rib", verify=False)


def test_an_interface_twice_in_a_file_is_refused(tmp_path: Path, monkeypatch) -> None:
    rib = Rib([[1, 2]])
    rib.apply(Update(["a"]), 0, 1)
    rib.apply(Update(["a"]), 0, 2)
    whole = saved_ribs.table_of
    monkeypatch.setattr(
        saved_ribs,
        "table_of",
        lambda *parts: whole(*parts)._replace(entries=np.array([1, 1], np.int32)),
    )
    rib.save(tmp_path / "a.rib")
    with pytest.raises(StorageError, match="has an interface twice"):
        Rib.open(tmp_path / "a.rib")


def test_a_rib_of_format_3_opens() -> None:
    rib = Rib.open(Path(__file__).parents[1] / "golden" / "rib-format-3", verify=True)
    assert rib.links == ((1, 2), (2,))
    assert set(rib.wanted(0, 1)) == {frozenset({"jazz", "live"}), frozenset({"rock"})}
    assert Counter(rib.wanted(1, 0)) == {frozenset({"jazz"}): 2}
    assert set(rib.wanted(1, 2)) == {frozenset({"rock"})}
