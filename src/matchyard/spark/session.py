"""A Spark session: the running one, or a new local one."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from matchyard.errors import UsageError
from matchyard.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LOOPBACK = "127.0.0.1"
MOST_MEMORY_GIB = 8  # of the driver; matching happens in Python workers, outside the driver

# Errors only: `spark.log.level` takes effect after Spark's first messages.
_LOG = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def session(
    cores: int | None = None,
    memory: str | None = None,
    name: str = "matchyard",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new local one on `cores` cores with `memory` for its JVM.

    A new session listens on loopback only, writes nothing to the working folder, and finds a Java
    runtime. `config` overrides the defaults. Under `spark-submit`, or if SPARK_REMOTE names a
    server, the session is that Spark's, and only `config` applies.

    >>> spark = session(cores=4, memory="2g")  # doctest: +SKIP
    """
    running = _running()
    if running is not None:
        return running
    from pyspark.sql import SparkSession

    builder, remote = SparkSession.builder.appName(name), os.environ.get("SPARK_REMOTE", "")
    if "PYSPARK_GATEWAY_PORT" in os.environ or remote.startswith("sc:"):
        return builder.config(map=dict(config or {})).getOrCreate()
    cores = cores or _cores()
    settings = {**_settings(cores, memory or _memory()), **(config or {})}
    builder = builder.remote(remote) if remote else builder.master(f"local[{cores}]")
    with _launch_environment(), warnings.catch_warnings():
        # Connect sets these on the server, then warns that it cannot change them any more.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        return builder.config(map=settings).getOrCreate()


def by_number(frame: DataFrame, n_partitions: int, number: Column) -> DataFrame:
    """Rows in the partition of their number. Before Spark 4.1, a partition may get the rows of several
    numbers, and another one none."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(n_partitions, number)
    return frame.repartition(n_partitions, number)


def find_session(spark: SparkSession | None = None) -> SparkSession:
    """The given session, or else the running one."""
    running = _running() if spark is None else spark
    if running is None:
        raise UsageError(
            "no Spark session runs in this thread; start one, e.g. "
            "spark = matchyard.spark.session(), or pass yours as spark="
        )
    return running


def _running() -> SparkSession | None:
    """The active or default session of this thread, classic or Connect."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    # The classic class does not see sessions that the Connect class made.
    connect = sys.modules.get("pyspark.sql.connect.session")
    for kind in [SparkSession, *([connect.SparkSession] if connect else [])]:
        try:
            return kind.active()
        except PySparkRuntimeError:
            continue
    return None


def _settings(cores: int, memory: str) -> dict[str, str]:
    folder = Path(tempfile.mkdtemp(prefix="matchyard-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    log = folder / "log4j2.properties"
    log.write_text(_LOG)
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log.as_uri()}"',
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }


@contextmanager
def _launch_environment() -> Iterator[None]:
    """Set Java, Python and loopback in the environment while the JVM starts."""
    changes = {
        "JAVA_HOME": _java_home(),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", LOOPBACK),
    }
    before = {name: os.environ.get(name) for name in changes}
    try:
        _set_environment(changes)
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _java_home() -> str | None:
    home = find_java().home
    return None if home is None else str(home)


def _cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    """Half of the machine's memory, in Spark's notation."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return f"{max(1024, min(half >> 20, MOST_MEMORY_GIB * 1024))}m"
