"""The base class of workloads, and the path of recorded data, for several engines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import UsageError


class Workload:
    """A named workload of `size` subscriptions, made on request.

    An index needs the input options `options` to read the events.
    """

    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, name: str, size: int, seed: int, model: Any) -> None:
        self.name, self.size, self.seed, self.model = name, size, seed, model
        self._check(model)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1 as an Arrow column, and their keys."""
        raise NotImplementedError

    def chunks(self, chunk: int = 1_000_000) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
        """All subscriptions, `chunk` at a time."""
        for start in range(0, self.size, chunk):
            yield self.subscriptions(start, min(self.size, start + chunk))

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events from `start` on as an Arrow column."""
        raise NotImplementedError

    def about(self) -> str:
        """A note for readers of results; empty for most workloads."""
        return ""

    def _check(self, model: Any) -> None:
        """Refuse parameters that make no sense."""

    def _refuse(self, unless: bool, message: str) -> None:
        if not unless:
            raise UsageError(f"workload {self.name!r}: {message}")


def path_of(folder: str, name: str) -> Path:
    """The path of a file of recorded data, in a folder of MATCHYARD_DATA."""
    root = os.environ.get("MATCHYARD_DATA")
    if not root:
        raise UsageError("real data is read from the folder in MATCHYARD_DATA, which is not set")
    path = Path(root) / folder / name
    if not path.exists():
        raise UsageError(f"{path} does not exist; MATCHYARD_DATA must name the folder above")
    return path
