"""Kafka: a real broker, events in, matches out, and the answers of the embedded index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import matchyard as my
from tests.spark.kafka import Broker, Connector, resolve_connector, run_broker

ROOT = Path(__file__).parents[2]
SOURCES = Path(my.__file__).parents[1]
TAGS = ["jazz", "live", "oslo", "vinyl", "news", "vote"]


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Connector:
    return resolve_connector(tmp_path_factory.mktemp("connector"))


@pytest.fixture(scope="module")
def broker(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def run_example(broker: Broker, connector: Connector, index: Path, checkpoint: Path) -> None:
    """The example in a process of its own: the jars must be there when its JVM starts."""
    command = [sys.executable, ROOT / "examples" / "kafka_stream.py", broker.address, index]
    options = ["--once", "--checkpoint", checkpoint, "--jars", ",".join(connector.jars)]
    done = subprocess.run(
        [*command, *options],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
def test_every_match_of_a_topic_arrives_in_the_other_and_none_twice(
    broker: Broker,
    connector: Connector,
    tmp_path: Path,
    build_index: Callable[..., my.TagIndex],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("kafka_connector", connector.version)
    subscriptions = [f"{one} {two}" for one in TAGS for two in TAGS if one < two] + ["jazz", "vote"]
    index = build_index(subscriptions, list(range(len(subscriptions))))
    index.save(tmp_path / "music.index")
    events = [{tag for bit, tag in enumerate(TAGS) if id >> bit & 1} for id in range(64)]
    expected = [(id, key) for id, keys in enumerate(index.match(events)) for key in keys]
    messages = [json.dumps({"id": id, "tags": sorted(event)}) for id, event in enumerate(events)]

    # Twice with one checkpoint: the second run goes on where the first one ended.
    for part in (messages[:40], messages[40:]):
        broker.produce("tweets", [*part, "no JSON"])
        run_example(broker, connector, tmp_path / "music.index", tmp_path / "checkpoint")

    found = [json.loads(message) for message in broker.consume("matches")]
    assert sorted((one["id"], one["key"]) for one in found) == sorted(expected)
    assert len(expected) > 300
    bad = [json.loads(message) for message in broker.consume("bad")]
    assert len(bad) == 2
    assert all("not a set of tags" in one["reason"] and "offset" in one["message"] for one in bad)
