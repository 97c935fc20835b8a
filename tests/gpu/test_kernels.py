"""All kernels compile, and the record of the last run on a card has the hashes of these files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.kernels import Kernel, compiled, hashes, kernels, record


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("kernel", kernels(), ids=str)
def test_every_kernel_compiles_without_a_word(kernel: Kernel, architecture: str) -> None:
    is_compiled, said = compiled(kernel, architecture)
    assert (is_compiled, said.strip()) == (True, "")


def test_a_kernel_with_a_fault_does_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text('extern "C" __global__ void f(int* to) { to[0] = SIZE + nowhere; }')
    is_compiled, said = compiled(Kernel(path, {"SIZE": 1}), "sm_90")
    assert not is_compiled
    assert "nowhere" in said


def test_what_runs_on_a_gpu_is_what_was_verified_there() -> None:
    found = record()
    assert found["files"] == hashes(), "run `python -m tests.gpu.verify` on a machine with a GPU"
    assert found["passed"] > 0
