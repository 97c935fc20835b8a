"""An index with several versions."""

from __future__ import annotations

import os
from pathlib import Path

import matchyard as my
from matchyard.storage.file_places import is_remote
from matchyard.storage.object_store import Remote


def publish(path: str, n_times: int) -> None:
    for _ in range(n_times):
        my.TagIndex().add("jazz", 1).save(path)


def kept(path: str) -> list[str]:
    if is_remote(path):
        return Remote(path).versions()
    return sorted(os.listdir(Path(path) / "versions"))
