"""The code in the documents about Spark runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spark.frames import events

DOCS = Path(__file__).parent.parent.parent / "docs"


def blocks(name: str) -> list[str]:
    text = (DOCS / name).read_text()
    found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(found) == text.count("```python")
    return found


@pytest.fixture
def index(spark, tmp_path, monkeypatch):
    """The index that the first page builds, in the working folder."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for number, block in enumerate(blocks("spark.md")):
        exec(compile(block, f"spark.md, block {number + 1}", "exec"), namespace)
    return tmp_path / "music.index"


def test_the_code_about_spark_in_the_readme_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = [block for block in blocks("../README.md") if "matchyard.spark" in block]
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_the_code_about_networks_runs(spark):
    namespace: dict[str, object] = {"__name__": "docs"}
    for number, block in enumerate(blocks("spark-networks.md")):
        exec(compile(block, f"spark-networks.md, block {number + 1}", "exec"), namespace)


def test_the_code_about_two_frames_and_about_streams_runs(spark, index):
    events(spark).write.parquet(str(index.parent / "events"))
    block, _ = blocks("streams.md")  # the other needs no Spark: tests/test_streaming.py
    namespace: dict[str, object] = {"__name__": "docs"}
    for name in ("music.index", "events", "pairs", "bad", "checkpoint"):
        block = block.replace(f'"{name}"', f'"{index.parent / name}"')
    exec(compile(block.replace("9108", "0"), "streams.md", "exec"), namespace)
    try:
        namespace["query"].processAllAvailable()
        assert spark.read.parquet(str(index.parent / "pairs")).columns == [
            "id", "key", "version", "batch",
        ]  # fmt: skip
    finally:
        namespace["query"].stop()
        spark.streams.removeListener(namespace["progress"])
        namespace["progress"].close()
