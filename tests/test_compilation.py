"""Kernels and the files they include; launching them is in tests/gpu."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchyard.gpu import compilation
from tests.gpu.kernels import Kernel, compiled


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels with a folder of shared ones beside; files of both include each other."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    (shared / "types.cuh").write_text("typedef int count_t;\n")
    (shared / "sums.cuh").write_text('#include "types.cuh"\n#define STEP 2\n')
    (own / "part.cuh").write_text('#include "sums.cuh"\n#define PART (STEP + 1)\n')
    monkeypatch.setattr(compilation, "_KERNELS", shared)
    return own


def test_included_files_are_put_in_place_and_each_of_them_once(folder: Path) -> None:
    path = folder / "some.cu"
    path.write_text(
        '// first\n#include "types.cuh"\n// second\n#include "part.cuh"\n#include "sums.cuh"\n// last\n'
    )
    assert compilation.kernel_source(path).splitlines() == [
        "// first", "typedef int count_t;", "// second", "#define STEP 2", "#define PART (STEP + 1)",
        "// last",
    ]  # fmt: skip


def test_an_included_file_beside_a_kernel_comes_before_a_shared_one(folder: Path) -> None:
    path = folder / "some.cu"
    path.write_text('#include "part.cuh"\n')
    (folder / "types.cuh").write_text("typedef long long count_t;\n")
    assert compilation.kernel_source(path).splitlines()[0] == "typedef long long count_t;"


def test_a_kernel_compiles_with_what_it_includes(folder: Path) -> None:
    path = folder / "some.cu"
    path.write_text(
        '#include "part.cuh"\nextern "C" __global__ void f(count_t* to) { to[0] = PART; }\n'
    )
    assert compiled(Kernel(path, {}), "sm_90") == (True, "")
    (folder / "types.cuh").write_text("")
    is_compiled, said = compiled(Kernel(path, {}), "sm_90")
    assert not is_compiled
    assert "count_t" in said


def test_an_included_file_that_is_nowhere_is_an_error(folder: Path) -> None:
    path = folder / "some.cu"
    path.write_text('#include "nowhere.cuh"\n')
    with pytest.raises(FileNotFoundError, match=r"nowhere\.cuh"):
        compilation.kernel_source(path)
