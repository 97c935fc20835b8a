"""Run everything that a GPU has to pass, and record it: `python -m tests.gpu.verify [PROCESSES]`.

Files are dealt out to processes, since most of the time goes into compiling for the CPU and into
asking the oracle.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from matchyard import device
from tests.gpu.kernels import RECORD, hashes, launchers

_TESTS = Path(__file__).parents[1]
_NOTHING = 5  # pytest's word for a file without a test that is asked for


class Job(NamedTuple):
    """Tests of one file."""

    path: Path
    which: str  # as pytest has it

    def __str__(self) -> str:
        return f"{self.path.relative_to(_TESTS)} -k '{self.which}'"


def jobs() -> list[Job]:
    """All there is to run: of the conformance suite, what is about an algorithm with kernels."""
    names = [path.stem.removesuffix("_gpu") for path, _ in launchers()]
    conformance = sorted(_TESTS.glob("conformance/test_*.py"))
    own = sorted(_TESTS.glob("gpu/test_*.py"))
    return [Job(path, name) for path in conformance for name in names] + [
        Job(path, "not what_was_verified_there") for path in own
    ]


def run(job: Job) -> tuple[int, str]:
    """How many tests of a file passed, and what pytest said if some did not."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(job.path), "-k", job.which],
        capture_output=True, text=True, check=False, cwd=_TESTS.parent,
        env={**os.environ, "MATCHYARD_TEST_DEVICE": "gpu"},
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", done.stdout)
    failed = "" if done.returncode in (0, _NOTHING) else done.stdout + done.stderr
    return int(passed[1]) if passed else 0, failed


def main(n_processes: int) -> int:
    """Run the tests on the GPU; the record is written where none fails."""
    name = device.card().name
    n_passed, has_failed, all_jobs = 0, False, jobs()
    with ThreadPoolExecutor(n_processes) as pool:
        for job, (passed, failed) in zip(all_jobs, pool.map(run, all_jobs), strict=True):
            print(f"{job}: {passed} passed", failed, flush=True)
            n_passed += passed
            has_failed |= bool(failed)
    if has_failed:
        return 1
    found = {
        "gpu": name,
        "date": datetime.date.today().isoformat(),
        "passed": n_passed,
        "files": hashes(),
    }
    RECORD.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    print(f"{n_passed} passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count() or 1))
