"""Run all tests that need a card, and record the result: `python -m tests.gpu.verify`.

With `--under memcheck` or `--under racecheck`, the tests of kernels run under NVIDIA's
compute-sanitizer, and the record of the same files notes it. They have fewer random cases then,
since racecheck makes a kernel thousands of times slower. Several processes share the tests, since
compiling for the CPU and the oracle take most of the time.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import matchyard as my
from matchyard.engine import ENGINES
from matchyard.gpu import devices
from tests.gpu.kernels import RECORD, hashes, record

_TESTS = Path(__file__).parents[1]
_ENVIRONMENT = {**os.environ, "MATCHYARD_TEST_DEVICE": "gpu"}
_FEW = 8  # tests of a process under a tool
_SANITIZER = (
    "compute-sanitizer", "--error-exitcode", "9",
    "--show-backtrace", "no",  # keeps the frames of Python for ever, and all that they refer to
)  # fmt: skip
_NOTHING = 5  # pytest's word for a file without a test that is asked for
_ABOUT = {  # files that are about one engine
    "test_tags.py": "tags",
    "test_predicates.py": "predicates",
    "test_many_predicates.py": "predicates",
    "test_twigs.py": "twigs",
}
_NOT_UNDER = (
    "test_faults.py",
    "test_kernels.py",
)  # faults are wanted there, or nothing is launched


class Job(NamedTuple):
    """Some tests for one process."""

    name: str
    given: tuple[str, ...]  # to pytest

    @classmethod
    def of(cls, path: Path, which: str) -> Job:
        """The tests of a file that an expression of pytest selects."""
        return cls(f"{path.relative_to(_TESTS)} -k '{which}'", (str(path), "-k", which))


def jobs(tool: str | None) -> list[Job]:
    """All jobs: the tests in this folder, and the conformance tests of algorithms with kernels.
    Under a tool, which is slow, only the tests of kernels, a few per process."""
    own = sorted(_TESTS.glob("gpu/test_*.py"))
    if tool:
        tests = _tests_of([path for path in own if path.name not in _NOT_UNDER])
        n_jobs = -(-len(tests) // _FEW)  # some of every file in each, since those of one are alike
        return [Job(f"from {tests[n]}", tuple(tests[n::n_jobs])) for n in range(n_jobs)]
    by_algorithm = [*sorted(_TESTS.glob("conformance/test_*.py")), _TESTS / "gpu" / "test_cards.py"]
    found = [
        Job.of(path, name)
        for path in by_algorithm
        for engine in ENGINES
        if _ABOUT.get(path.name, engine) == engine
        for name in my.algorithms(engine, "gpu")
    ]
    others = [path for path in own if path not in by_algorithm]
    return found + [Job.of(path, "not what_was_verified_there") for path in others]


def _tests_of(paths: list[Path]) -> list[str]:
    """The names of all tests of some files, without the tests of whole indexes."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, paths), "-k", "not an_index_gives", "--collect-only"],
        capture_output=True, text=True, check=True, cwd=_TESTS.parent, env=_ENVIRONMENT,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if "::" in line]


def run(job: Job, tool: str | None) -> tuple[int, str]:
    """Run a job: (number of passed tests, output if some failed)."""
    under = [*_SANITIZER, "--tool", tool] if tool else []
    environment = {**_ENVIRONMENT, "MATCHYARD_TEST_UNDER": tool or ""}
    done = subprocess.run(
        [*under, sys.executable, "-m", "pytest", *job.given],
        capture_output=True, text=True, check=False, cwd=_TESTS.parent, env=environment,
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", done.stdout)
    failed = "" if done.returncode in (0, _NOTHING) else done.stdout + done.stderr
    return int(passed[1]) if passed else 0, failed


def ran(tool: str | None, n_processes: int) -> int | None:
    """Run all jobs; returns the number of passed tests, or None if one failed."""
    n_passed, has_failed, start = 0, False, time.monotonic()
    with ThreadPoolExecutor(n_processes) as pool:
        under_way = {pool.submit(run, job, tool): job for job in jobs(tool)}
        for ended in as_completed(under_way):
            passed, failed = ended.result()
            after = f"after {time.monotonic() - start:.0f} s"
            print(f"{under_way[ended].name}: {passed} passed {after}", failed, flush=True)
            n_passed += passed
            has_failed |= bool(failed)
    return None if has_failed else n_passed


def noted(tool: str | None, n_passed: int) -> dict[str, Any]:
    """The record with the new result; results of other versions of the files are dropped."""
    before = record() if RECORD.exists() else {}
    if tool:
        known = before if before.get("files") == hashes() else {"files": hashes()}
        return {**known, tool: n_passed}
    today, cupy = datetime.date.today().isoformat(), devices.the_cupy()
    return {
        "gpu": devices.card_state().name,
        "cupy": cupy.__version__,
        "cuda": cupy.cuda.runtime.runtimeGetVersion(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "date": today,
        "passed": n_passed,
        "files": hashes(),
    }


def main(given: Sequence[str]) -> int:
    """Run the tests on the card, and write the record if none fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--under", choices=["memcheck", "racecheck"])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(given)
    devices.card_state()  # says what is missing
    n_passed = ran(options.under, options.processes)
    if n_passed is None:
        return 1
    RECORD.write_text(json.dumps(noted(options.under, n_passed), indent=2) + "\n", "utf-8")
    print(f"{n_passed} passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
