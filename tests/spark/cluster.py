"""A standalone cluster on loopback: a master and two workers, each a process, for tests that kill them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from matchyard.spark.java import find_java
from tests.spark.gpu_cluster import home_of_spark

LOOPBACK = "127.0.0.1"


class Cluster:
    """The processes of a cluster; their logs are in its folder. A bare one has no Python with Matchyard."""

    def __init__(self, folder: Path, is_bare: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.home = home_of_spark(folder)
        self.environment = {
            **with_java(),
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_WORKER_DIR": str(folder / "work"),
            "PYSPARK_PYTHON": "/no/python" if is_bare else sys.executable,
            "PYTHONPATH": "" if is_bare else os.pathsep.join(sys.path),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        master = "org.apache.spark.deploy.master.Master"
        self._start("master", LOOPBACK, master, "--port", "0")
        self.url = self._said("master", r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            worker = "org.apache.spark.deploy.worker.Worker"
            name = f"worker{number}"
            # Spark starts no second copy of a task on the same host.
            host = f"127.0.0.{2 + number}"
            self._start(name, host, worker, "--cores", "1", "--memory", "2g", self.url)
            self._said(name, r"Successfully registered with master ()")

    def _start(self, name: str, host: str, kind: str, *options: str) -> None:
        command = [str(self.home / "bin/spark-class"), kind, "--host", host, "--webui-port", "0"]
        with (self.folder / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                [*command, *options], stdout=log, stderr=log, start_new_session=True,
                env={**self.environment, "SPARK_LOCAL_IP": host},
            )  # fmt: skip
        self.processes.append(started)

    def _said(self, name: str, pattern: str) -> str:
        for _ in range(600):
            found = re.search(pattern, (self.folder / f"{name}.log").read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.1)
        raise AssertionError((self.folder / f"{name}.log").read_text()[-2000:])

    def executors(self) -> list[Any]:
        """The processes of executors."""
        return [
            child
            for process in self.processes
            for child in psutil.Process(process.pid).children(recursive=True)
            if is_executor(child)
        ]

    def kill_worker(self) -> None:
        """Kill a worker with everything below it."""
        kill(self.processes.pop())

    def stop(self) -> None:
        """Kill everything that is left."""
        while self.processes:
            kill(self.processes.pop())


def with_java() -> dict[str, str]:
    """The environment in which Spark finds its Java: that of PATH if JAVA_HOME is not set."""
    home = find_java().home
    named = {} if home is None else {"JAVA_HOME": str(home)}
    return {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | named


def is_executor(process: Any) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False


def kill(process: subprocess.Popen[bytes]) -> None:
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def running(folder: Path, is_bare: bool = False) -> Iterator[Cluster]:
    cluster = Cluster(folder, is_bare)
    try:
        yield cluster
    finally:
        cluster.stop()
