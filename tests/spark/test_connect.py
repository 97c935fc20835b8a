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
SOURCES = os.pathsep.join([str(Path(matchyard.__file__).parent.parent), str(HERE.parent.parent)])


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


def test_build_match_stream_and_sql_run_in_connect(tmp_path) -> None:
    told = run_connect(HERE / "connect_path.py", str(tmp_path))
    error = told.pop("error")
    assert told == {
        "session": "pyspark.sql.connect.session",
        "found": True,
        "replicated": True,
        "sharded": True,
        "stream": {"pairs": True, "versions": [1], "bad": [8]},
        "sql": True,
        "changed": True,
        "followed": True,
    }
    assert "a subscription of key 0 is null" in error
    assert "\n" not in error
