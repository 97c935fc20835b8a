"""Kernels are plain Python where NUMBA_DISABLE_JIT is set, and then find what the oracle finds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numba
import pytest

from tests import cases, predicate_cases, twig_cases

HERE = Path(__file__).parent
CASES = cases.CASES + predicate_cases.CASES + twig_cases.CASES
ENVIRONMENT = {**os.environ, "NUMBA_DISABLE_JIT": "1", "MATCHYARD_TEST_DEVICE": "cpu"}


def test_every_case_passes_its_stepped_tests_without_the_jit() -> None:
    # Numba reads the variable when it is imported, so that it takes another process.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "stepped", "-rA", "-p", "no:cacheprovider", str(HERE)],
        capture_output=True, text=True, check=False, cwd=HERE.parents[1], env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"^PASSED \S+/test_(\w+)\.py::\w+\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert {(case.engine, case.name) for case in CASES} <= set(passed)
    assert "::test_a_debugger_sees_the_lines_of_kernels" in done.stdout


@pytest.mark.stepped
@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="kernels are compiled")
def test_a_debugger_sees_the_lines_of_kernels() -> None:
    seen = set()

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        seen.add(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")

    sys.settrace(trace)
    try:
        index = cases.build([["a"]], [7], "rarest")
        assert index.match([["a", "b"], ["c"]]).to_lists() == [[7], []]
    finally:
        sys.settrace(None)
    assert {"subset.select", "hashing.xxh64", "hashing.mix64"} <= seen
