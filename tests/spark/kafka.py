"""A Kafka broker for tests: one node without ZooKeeper, on loopback, with jars that Maven finds."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from matchyard.spark.java import find_java
from tests.spark.maven import resolve

KAFKA = "4.1.0"
START_S, STOP_S = 120, 20
CLUSTER = "4L6g3nShT-eMCtK--X86sw"  # any 16 bytes; a broker keeps its own in its folder

# Versions of the connector and of its token provider, best first: both should be Spark's own, or at least of
# its minor version. Where Central lacks those, a mix of two older ones, which Spark does not promise to run:
# seen to on 4.3.0.
MINOR = pyspark.__version__.rpartition(".")[0]
OWN = [pyspark.__version__, *(f"{MINOR}.{patch}" for patch in (4, 1, 0))]
CONNECTORS = [*((version, version) for version in dict.fromkeys(OWN)), ("4.2.0", "4.0.0")]
CLIENT, POOL = "3.9.2", "2.13.1"  # of kafka-clients and commons-pool2, as connector 4.2 wants them

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Connector(NamedTuple):
    """Spark's side of Kafka: its jars, and the version that was to be had."""

    jars: list[str]
    version: str


class Broker(NamedTuple):
    """A running broker: its address, and the command that starts one of its tools."""

    address: str
    java: list[str]

    def produce(self, topic: str, lines: list[str]) -> None:
        """Send one message per line."""
        self._run("ConsoleProducer", "--topic", topic, text="".join(f"{line}\n" for line in lines))

    def consume(self, topic: str, quiet_ms: int = 5000) -> list[str]:
        """Every message of a topic, read until none comes for a while."""
        arguments = ["--topic", topic, "--from-beginning", "--timeout-ms", str(quiet_ms)]
        return self._run("consumer.ConsoleConsumer", *arguments).splitlines()

    def _run(self, tool: str, *arguments: str, text: str = "") -> str:
        command = [*self.java, f"org.apache.kafka.tools.{tool}"]
        return subprocess.run(
            [*command, "--bootstrap-server", self.address, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=True,
        ).stdout


def resolve_connector(folder: Path) -> Connector:
    """The connector's jars; the test is skipped where they cannot be had."""
    problems = []
    for connector, provider in CONNECTORS:
        # All four are named, and their own dependencies left out, which Spark brings: the project
        # files of Spark name further repositories, which need not be in reach.
        jars, problem = resolve(
            folder / f"connector-{connector}.xml",
            [
                f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}",
                f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{provider}",
                f"org.apache.kafka:kafka-clients:{CLIENT}",
                f"org.apache.commons:commons-pool2:{POOL}",
            ],
            alone=True,
        )
        if jars:
            return Connector(jars, f"{connector} with token provider {provider}")
        problems.append(problem)
    pytest.skip(f"no Kafka connector for Spark: {'; '.join(dict.fromkeys(problems))}")


@contextmanager
def run_broker(folder: Path) -> Iterator[Broker]:
    """A broker with its data in the folder, gone with it at the end."""
    jars, problem = resolve(
        folder / "broker.xml",
        [f"org.apache.kafka:kafka_2.13:{KAFKA}", f"org.apache.kafka:kafka-tools:{KAFKA}"],
    )
    if not jars:
        pytest.skip(f"no Kafka broker: {problem}")
    java = [str(find_java().executable), "-Xmx256m", "-cp", os.pathsep.join(jars)]
    port, controller = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_PROPERTIES.format(port=port, controller=controller, folder=folder))
    make = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
    subprocess.run(make, check=True, capture_output=True, timeout=START_S)
    log = folder / "broker.log"
    with log.open("w") as output:
        command = [*java, "kafka.Kafka", str(settings)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait_for(port, process, log)
        yield Broker(f"127.0.0.1:{port}", java)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, f"the broker ended at once: {log.read_text()[-2000:]}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"the broker did not listen within {START_S} s")
