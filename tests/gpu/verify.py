"""Run everything that a GPU has to pass, and record it: `python -m tests.gpu.verify`."""

from __future__ import annotations

import datetime
import json
import os
import sys
from typing import Any

import pytest

from tests.gpu.kernels import RECORD, hashes, launchers

WHAT = ("tests/conformance", "tests/gpu")


class Count:
    """How tests ended."""

    def __init__(self) -> None:
        self.passed, self.failed = 0, 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed += report.when == "call" and report.passed
        self.failed += bool(report.failed)


def main(arguments: list[str]) -> int:
    """Run the tests on the GPU; the record is written where none fails."""
    os.environ["MATCHYARD_TEST_DEVICE"] = "gpu"
    from matchyard import device

    count = Count()
    names = [path.stem.removesuffix("_gpu") for path, _ in launchers()]
    which = f"({' or '.join((*names, 'gpu'))}) and not what_was_verified_there"
    code = pytest.main([*WHAT, "-k", which, *arguments], plugins=[count])
    if code == 0 and not arguments:
        found = {
            "gpu": device.card().name,
            "date": datetime.date.today().isoformat(),
            "passed": count.passed,
            "failed": count.failed,
            "files": hashes(),
        }
        RECORD.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
