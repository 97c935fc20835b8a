"""Workloads from real data, read from the folder that the variable MATCHYARD_DATA names.

`kdd` are the connections of KDD Cup 1999 (10 %) [UCI]; `sigma` are the detection rules of SigmaHQ on
Windows events of the Security-Datasets.
"""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from matchyard.engines.predicates.language import sigma_rules
from matchyard.engines.predicates.workload.draws import draw_fractions, draw_names
from matchyard.engines.predicates.workload.generated import Workload, constraints
from matchyard.engines.workloads import path_of
from matchyard.kernels.csr import ragged
from matchyard.kernels.random import zipf

TEXTS = ("protocol_type", "service", "flag")
FLAGS = ("land", "logged_in", "is_host_login", "is_guest_login")
NAMES = [
    "duration",
    "protocol_type",
    "service",
    "flag",
    "src_bytes",
    "dst_bytes",
    "land",
    "wrong_fragment",
    "urgent",
    "hot",
    "num_failed_logins",
    "logged_in",
    "num_compromised",
    "root_shell",
    "su_attempted",
    "num_root",
    "num_file_creations",
    "num_shells",
    "num_access_files",
    "num_outbound_cmds",
    "is_host_login",
    "is_guest_login",
    "count",
    "srv_count",
    "serror_rate",
    "srv_serror_rate",
    "rerror_rate",
    "srv_rerror_rate",
    "same_srv_rate",
    "diff_srv_rate",
    "srv_diff_host_rate",
    "dst_host_count",
    "dst_host_srv_count",
    "dst_host_same_srv_rate",
    "dst_host_diff_srv_rate",
    "dst_host_same_src_port_rate",
    "dst_host_srv_diff_host_rate",
    "dst_host_serror_rate",
    "dst_host_srv_serror_rate",
    "dst_host_rerror_rate",
    "dst_host_srv_rerror_rate",
]


class Kdd(NamedTuple):
    """Subscriptions look for connections like one that was seen: for each of some attributes that
    are numbers, a value at most `width` standard deviations from its own."""

    subscription_size: int = 5
    width: float = 0.25
    service: float = 0.5  # the share of subscriptions that ask for the same service, too
    stride: int = 1  # from the connection that is one event to that of the next


class Sigma(NamedTuple):
    """Nothing can be set: rules and events are as they were written."""


@cache
def _connections(path: Path) -> pa.Table:
    kinds = {name: pa.string() if name in TEXTS else pa.float64() for name in NAMES}
    table = csv.read_csv(
        path,
        csv.ReadOptions(column_names=[*NAMES, "label"]),
        convert_options=csv.ConvertOptions(column_types=kinds, include_columns=NAMES),
    )
    return table.combine_chunks()


class Connections(Workload):
    """`kdd`: a subscription's key is its number; events are the rows in order, in a circle."""

    model: Kdd

    def _check(self, model: Kdd) -> None:
        self._rows = _connections(path_of("numeric", "kddcup.data_10_percent.gz"))
        self._names = [name for name in NAMES if name not in (*TEXTS, *FLAGS)]
        self._refuse(
            1 <= model.subscription_size <= len(self._names), "there are 34 numeric attributes"
        )
        self._refuse(1 <= model.stride <= self._rows.num_rows, "a stride is 1 to 494021")
        self._values = np.stack([self._rows[name].to_numpy() for name in self._names])
        self._reach = model.width * self._values.std(axis=1)
        self._popularity = zipf(len(self._names), 0.0)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1: intervals, and perhaps the service."""
        size, n_rows = self.model.subscription_size, stop - start
        names = draw_names(self.seed, start, stop, size, len(self._names), 0.0, self._popularity)
        chance = draw_fractions(self.seed, start, stop, 2, 10)
        rows = (chance[:, 0] * self._rows.num_rows).astype(np.int64)
        center, reach = self._values[names, rows[:, None]], self._reach[names]
        asks = chance[:, 1] < self.model.service
        kept = np.column_stack([np.ones((n_rows, size), bool), asks]).ravel()
        is_text = np.column_stack([np.zeros((n_rows, size), bool), asks]).ravel()[kept]
        low, high, name_ids = (
            np.column_stack([part, last]).ravel()[kept]
            for part, last in (
                (center - reach, np.zeros(n_rows)),
                (center + reach, np.zeros(n_rows)),
                (names, np.full(n_rows, len(self._names))),
            )
        )
        services = self._rows["service"].combine_chunks().dictionary_encode()
        positions = np.repeat(np.arange(n_rows), np.where(asks, size + 1, size))
        wanted = services.indices.to_numpy()[rows[positions]].astype(np.int32)
        column = constraints(
            ragged(size + asks), pa.array([*self._names, "service"]), name_ids,
            ["between", "="], is_text,
            {
                "value": pa.array(low, mask=is_text),
                "high": pa.array(high, mask=is_text),
                "text": pa.DictionaryArray.from_arrays(
                    pa.array(wanted, mask=~is_text), services.dictionary
                ),
            },
        )  # fmt: skip
        return column, np.arange(start, stop)

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Connections from `start` on, as structs of 38 numbers and 3 texts."""
        numbers = np.arange(start, start + n_events) % self._rows.num_rows
        positions = numbers * self.model.stride % self._rows.num_rows
        return self._rows.take(pa.array(positions)).to_struct_array().combine_chunks()


@cache
def _windows(path: Path) -> pa.Array:
    with gzip.open(path) as file:
        return pa.array(file.read().splitlines(), pa.binary())


@cache
def _rules(path: Path) -> tuple[list[sigma_rules.Rule], dict[str, int]]:
    rules, left = sigma_rules.read(path)
    return rules, dict(Counter(rule.reason for rule in left).most_common())


class Detections(Workload):
    """`sigma`: the rules that map to predicates, as text; a rule's key is its number among these.

    `titles` are those of the rules, and `unmapped` counts the others by reason.
    """

    def _check(self, model: Any) -> None:
        rules, self.unmapped = _rules(path_of("rules", "sigma.tar.xz"))
        self.size = min(self.size, len(rules))
        self.titles = tuple(rule.title for rule in rules[: self.size])
        self._texts = pa.array([rule.text for rule in rules[: self.size]])
        self._events = _windows(path_of("rules", "windows_events.jsonl.gz"))

    @property
    def n_events(self) -> int:
        """How many events were recorded."""
        return len(self._events)

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Rules `start` … `stop`-1 as text of the language."""
        stop = min(stop, self.size)
        return self._texts[start:stop], np.arange(start, stop)

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events from `start` on as JSON; after the last comes the first again."""
        return self._events.take(pa.array(np.arange(start, start + n_events) % self.n_events))
