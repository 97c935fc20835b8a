"""One Spark session for all tests of this folder, which all carry the mark `spark`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import matchyard.spark

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session on two cores, with few partitions; stopped after the last test. Its workers keep what they
    fetch from stores in a folder of the tests."""
    os.environ["MATCHYARD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    session = matchyard.spark.session(
        cores=2,
        memory="1g",
        name="tests",
        config={"spark.sql.shuffle.partitions": "4", "spark.default.parallelism": "2"},
    )
    yield session
    session.stop()
