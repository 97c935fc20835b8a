"""The session that is found or started, and what it leaves untouched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import matchyard.spark
from matchyard.errors import DeviceError, UsageError
from matchyard.spark.java import Java
from matchyard.spark.session import find_session

module = import_module("matchyard.spark.session")  # the name in the package is the function


def test_a_session_runs_python_on_arrow_batches(spark: Any) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"twice": pa.array([2 * id for id in batch["id"].to_pylist()])})

    table = spark.range(5).mapInArrow(double, "twice long").toArrow()
    assert sorted(table["twice"].to_pylist()) == [0, 2, 4, 6, 8]


def test_the_session_that_runs_is_the_one_given(spark: Any) -> None:
    assert matchyard.spark.session() is spark
    assert find_session() is spark
    other = object()
    assert find_session(other) is other


def test_without_a_session_one_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_running", lambda: None)
    with pytest.raises(UsageError, match=r"matchyard\.spark\.session\(\)"):
        find_session()


def test_a_session_stays_on_loopback_and_out_of_the_working_folder(spark: Any) -> None:
    read = spark.conf.get
    assert read("spark.driver.host") == read("spark.driver.bindAddress") == "127.0.0.1"
    assert read("spark.ui.enabled") == "false"
    assert read("spark.sql.session.timeZone") == "UTC"
    assert read("spark.sql.shuffle.partitions") == "4"
    assert "matchyard-spark-" in read("spark.sql.warehouse.dir")
    for name in ["spark-warehouse", "metastore_db", "derby.log", "artifacts"]:
        assert not Path(name).exists()


@pytest.mark.parametrize("home", [Path("/ours"), None])
@pytest.mark.parametrize("before", ["/theirs", None])
def test_the_environment_changes_for_the_launch_only(
    home: Path | None, before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_java", lambda: Java(Path("java"), 25, home))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if before:
        monkeypatch.setenv("JAVA_HOME", before)
    whole = dict(os.environ)
    with module._launch_environment():
        assert os.environ.get("JAVA_HOME") == (home and str(home))
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert dict(os.environ) == whole


def test_a_python_for_the_workers_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_java", lambda: Java(Path("java"), 25, None))
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.99")
    with module._launch_environment():
        assert os.environ["PYSPARK_PYTHON"] == "python3.99"


def test_missing_java_is_told_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> Java:
        raise DeviceError("no Java")

    monkeypatch.setattr(module, "_running", lambda: None)
    monkeypatch.setattr(module, "find_java", find_none)
    with pytest.raises(DeviceError, match="no Java"):
        matchyard.spark.session()


def test_missing_pyspark_is_told_with_the_command() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import matchyard.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "matchyard.errors.UsageError: Spark needs PySpark: pip install 'matchyard[spark]'"
    )
