"""Workloads of recorded data, from the folder in the environment variable MATCHYARD_DATA.

`congress` is an extract of hashtags of tweets by members of the US Congress, 2017 to 2023;
`ego-twitter` is SNAP's ego-Twitter [McAuley and Leskovec, 2012].
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray
from pyarrow import csv

from matchyard.errors import UsageError
from matchyard.kernels.csr import append_new, ragged
from matchyard.kernels.random import below, draw

_MOST = 16  # tags in one row


class Recorded:
    """A workload of recorded data: the first `size` subscriptions, and events that repeat."""

    def __init__(
        self, name: str, size: int, tags: pa.Array, keys: pa.Array, events: pa.Array
    ) -> None:
        self.name, self.size = name, min(size, len(tags))
        self._tags, self._keys, self._events = tags, keys, events

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Subscriptions `start` … `stop`-1 as an Arrow list of strings, and their keys."""
        stop = min(stop, self.size)
        return self._tags[start:stop], self._keys[start:stop].to_numpy(zero_copy_only=False)

    def chunks(self, chunk: int = 1_000_000) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
        """All subscriptions, `chunk` at a time."""
        for start in range(0, self.size, chunk):
            yield self.subscriptions(start, start + chunk)

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Events from `start` on; the first event follows the last."""
        return self._events.take(pa.array(np.arange(start, start + n_events) % len(self._events)))


def _data(name: str) -> Path:
    folder = os.environ.get("MATCHYARD_DATA")
    if not folder:
        raise UsageError("real data is read from the folder in MATCHYARD_DATA, which is not set")
    path = Path(folder) / "tags" / name
    if not path.exists():
        raise UsageError(f"{path} does not exist; MATCHYARD_DATA must name the folder above 'tags'")
    return path


def _columns(name: str, *columns: str) -> pa.Table:
    """Read a compressed file of columns, separated by tabs."""
    return csv.read_csv(
        _data(name),
        csv.ReadOptions(column_names=list(columns)),
        csv.ParseOptions(delimiter="\t", quote_char=False),
        csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
    ).combine_chunks()


def congress(size: int, seed: int) -> Recorded:
    """Tweets of the US Congress: subscriptions until some day in 2022, events after it.

    A subscription is the hashtags of a tweet; its key is the number of the writer.
    """
    tweets = _columns("congress_hashtags_slim.tsv.gz", "date", "user", "tags").sort_by("date")
    sets = pc.split_pattern(tweets["tags"].combine_chunks(), ",")
    users = tweets["user"].combine_chunks().dictionary_encode().indices.cast(pa.int64())
    known = int(0.8 * len(sets))
    return Recorded("congress", size, sets[:known], users[:known], sets[known:])


def ego_twitter(size: int, seed: int) -> Recorded:
    """SNAP's ego networks: a follower subscribes to one to three interests of a writer, and to the
    writer's id if the writer is in the top 30 % by interests. Events have interests and writers.
    """
    follows = _columns("ego_twitter_follows.tsv.gz", "follower", "followee")
    interests = _columns("ego_twitter_user_interests.tsv.gz", "user", "tags")
    lists = pc.split_pattern(interests["tags"].combine_chunks(), " ")
    names = lists.values.dictionary_encode()
    users = interests["user"].combine_chunks()
    ids = pa.array(np.arange(len(names.dictionary), len(names.dictionary) + len(users)))
    vocabulary = pa.concat_arrays([names.dictionary, pc.binary_join_element_wise("@", users, "")])
    writer = pc.index_in(follows["followee"].combine_chunks(), users)
    kept = pc.is_valid(writer)
    start = lists.offsets.to_numpy().astype(np.int64)
    tags = names.indices.to_numpy().astype(np.int64)
    writers = writer.filter(kept).to_numpy().astype(np.int64)
    frequent = np.diff(start) >= np.quantile(np.diff(start), 0.7)
    asked = _sample(start, tags, writers, ids.to_numpy(), frequent, 1, 3, seed)
    everyone = np.random.default_rng(seed).integers(0, len(users), 200_000)
    written = _sample(
        start, tags, everyone, ids.to_numpy(), np.ones(len(users), bool), 3, 8, seed + 1
    )
    sets, events = (
        pa.ListArray.from_arrays(offsets.astype(np.int32), vocabulary.take(pa.array(chosen)))
        for offsets, chosen in (asked, written)
    )
    keys = follows["follower"].combine_chunks().filter(kept).cast(pa.int64())
    return Recorded("ego-twitter", size, sets, keys, events)


@njit(nogil=True, cache=True)
def _sample(start, tags, writers, ids, signed, fewest, most, seed):
    """Sample tags of each writer, with the writer's id if `signed`: (offsets, tags)."""
    counts = np.zeros(len(writers), np.int64)
    chosen = np.empty(len(writers) * (most + 1), np.int64)
    row = np.empty(_MOST, np.int64)
    end = 0
    for number in range(len(writers)):
        writer = writers[number]
        n_known = start[writer + 1] - start[writer]
        n_wanted = min(n_known, fewest + below(draw(seed, number, 1), most - fewest + 1))
        n_tags = 0
        for trial in range(100):
            if n_tags == n_wanted:
                break
            position = start[writer] + below(draw(seed, number, 10 + trial), n_known)
            n_tags = append_new(row, n_tags, tags[position])
        if signed[writer]:
            n_tags = append_new(row, n_tags, ids[writer])
        chosen[end : end + n_tags] = row[:n_tags]
        counts[number] = n_tags
        end += n_tags
    return ragged(counts), chosen[:end].copy()
