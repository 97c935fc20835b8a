"""Spark Connect: the same calls through a server, in a process of their own.

One process holds either a classic session or a Connect one, so these scripts run beside the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import matchyard

HERE = Path(__file__).parent
SOURCES = str(Path(matchyard.__file__).parent.parent)


def run_connect(script: Path, *arguments: str) -> Any:
    """Run a script whose `matchyard.spark.session()` is a Connect one; what it prints last."""
    environment = {
        **os.environ,
        "SPARK_REMOTE": "local[2]",  # a server on loopback, in the script's own JVM
        "SPARK_TESTING": "1",  # gives the server a free port
        # Workers of Connect run in a folder of their own, where a relative path leads nowhere.
        "PYTHONPATH": os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", autouse=True)
def _connect() -> None:
    pytest.importorskip("grpc", reason="needs pyspark[connect]")


def test_a_whole_path_runs_in_connect() -> None:
    assert run_connect(HERE / "connect_path.py") == {
        "session": "pyspark.sql.connect.session",
        "found": True,
        "twice": [0, 2, 4, 6, 8],
    }
