"""Machine code in files: when it is used, and when a kernel is compiled again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from matchyard.kernels.compiler import code_cache, levels
from tests.kernels.compiler.probe import Probe, n_hits


def test_a_kernel_is_loaded_by_the_next_process(probe: Probe) -> None:
    first = probe.load().twice
    assert (first(5), n_hits(first)) == (7, 0)
    second = probe.load().twice
    assert (second(5), n_hits(second)) == (7, 1)
    assert (second(5.5), n_hits(second)) == (7.5, 1)  # another signature


def test_only_kernels_that_python_calls_are_saved(probe: Probe) -> None:
    assert probe.load().thrice(5) == 8
    assert probe.files() == ["thrice"]


def test_a_change_in_a_module_that_is_imported_is_noticed(probe: Probe) -> None:
    assert probe.load().twice(5) == 7
    probe.helpers = probe.helpers.replace("STEP = 1", "STEP = 2")
    changed = probe.load().twice
    assert (changed(5), n_hits(changed)) == (9, 0)
    assert probe.files() == ["twice"]  # replaced


def test_a_damaged_file_is_compiled_again(probe: Probe) -> None:
    probe.load().twice(5)
    (file,) = probe.folder.rglob("*.nbc")
    whole = file.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        kernel = probe.load().twice
        assert (kernel(5), n_hits(kernel)) == (7, 0)
        assert len(file.read_bytes()) > 1000


def test_code_for_other_signatures_is_refused(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where two signatures share a file name, as if their hashes were equal."""
    monkeypatch.setattr(code_cache, "_name", lambda *_: "same.nbc")
    probe.load().twice(5)
    kernel = probe.load().twice
    assert (kernel(5.5), n_hits(kernel)) == (7.5, 0)


def test_other_settings_of_numba_have_files_of_their_own(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.load().twice(5)
    monkeypatch.setattr("numba.core.config.BOUNDSCHECK", 1)
    kernel = probe.load().twice
    assert (kernel(5), n_hits(kernel)) == (7, 0)
    assert probe.files() == ["twice", "twice"]


def test_without_a_folder_to_write_to_kernels_are_compiled(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr(code_cache, "CompileResultCacheImpl", refuse)
    assert probe.load().twice(5) == 7
    assert probe.files() == []


def test_a_full_disk_is_no_error_and_leaves_no_pieces(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    assert probe.load().twice(5) == 7
    assert [file for file in probe.folder.rglob("*") if ".nbc" in file.name] == []


def test_shipped_code_of_the_best_level_is_loaded(
    probe: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = levels.host_levels()[0]
    shipped = tmp_path / "compiled"
    monkeypatch.setattr(code_cache.Target, "folder", shipped / best)
    monkeypatch.setattr(code_cache.Target, "level", best)
    probe.load().twice(5)
    monkeypatch.undo()
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr(code_cache, "_folder", lambda _: tmp_path / "machine")
    for folder, hits in ((shipped, 1), (tmp_path / "elsewhere", 0)):
        monkeypatch.setattr(code_cache, "SHIPPED", folder)
        code_cache._shipped_levels.cache_clear()
        kernel = probe.load().twice
        assert (kernel(5), n_hits(kernel)) == (7, hits)
    code_cache._shipped_levels.cache_clear()


def test_levels_are_those_whose_features_a_cpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    features = dict.fromkeys(["cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"], True)
    monkeypatch.setattr(levels.binding, "get_host_cpu_features", lambda: features)
    assert levels.host_levels() == ("x86-64-v2",)
    features.update(
        dict.fromkeys(
            ["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"], True
        )
    )
    assert levels.host_levels() == ("x86-64-v3", "x86-64-v2")
    features["avx2"] = False
    features["avx512f"] = True
    assert levels.host_levels() == ("x86-64-v2",)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert levels.host_levels() == ()
