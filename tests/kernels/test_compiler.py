"""Numba's cache, shared by processes that compile at the same time or are killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import IndexDataCacheFile

import matchyard.kernels

assert matchyard.kernels.compiler  # which changes how files are saved


def cache(folder: Path, stamp: str = "source") -> Any:
    return IndexDataCacheFile(str(folder), "kernel", stamp)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    for key in ("int64", "float64", "int64"):
        cache(tmp_path).save(key, f"code of {key}")
    assert cache(tmp_path).load("int64") == "code of int64"
    assert cache(tmp_path).load("float64") == "code of float64"
    assert cache(tmp_path).load("bool") is None
    assert cache(tmp_path, "other source").load("int64") is None
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("step", ["_save_data", "_save_index"])
@pytest.mark.parametrize("is_before", [True, False])
def test_two_processes_that_save_at_a_time_mix_up_nothing(
    tmp_path: Path, step: str, is_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One saves while the other is at any of its steps; both have read the index before."""
    first, second = cache(tmp_path), cache(tmp_path)
    monkeypatch.setattr(first, "_load_index", dict)
    monkeypatch.setattr(second, "_load_index", dict)
    real = getattr(second, step)

    def meet(*given: Any) -> None:
        if is_before:
            first.save("int64", "code of int64")
        real(*given)
        if not is_before:
            first.save("int64", "code of int64")

    monkeypatch.setattr(second, step, meet)
    second.save("float64", "code of float64")
    found = {key: cache(tmp_path).load(key) for key in ("int64", "float64")}
    assert set(found.values()) - {None}
    assert all(code in (None, f"code of {key}") for key, code in found.items())


@pytest.mark.parametrize("step", ["_save_data", "_save_index"])
def test_a_process_that_is_killed_leaves_no_code_of_older_source(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache(tmp_path, "older source").save("int64", "older code")
    killed = cache(tmp_path, "source")
    real = getattr(killed, step)

    def die(*given: Any) -> None:
        if step == "_save_index":
            real(*given)
        raise SystemExit

    monkeypatch.setattr(killed, step, die)
    with pytest.raises(SystemExit):
        killed.save("int64", "code")
    assert cache(tmp_path, "source").load("int64") in (None, "code")
