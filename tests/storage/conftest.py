"""An index in a store that speaks S3, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs


@pytest.fixture
def address(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an index that is not there yet, and an empty cache."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("MATCHYARD_CACHE", str(tmp_path / "cache"))
    query = f"scheme=http&endpoint_override={store}&region=us-east-1&allow_bucket_creation=true"
    bucket = tmp_path.name.replace("_", "-").lower()
    files, _ = fs.FileSystem.from_uri(f"s3://{bucket}?{query}")
    files.create_dir(bucket)
    return f"s3://{bucket}/music.index?{query}"


@pytest.fixture(params=["folder", "store"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        str(tmp_path / "a.index")
        if request.param == "folder"
        else request.getfixturevalue("address")
    )
