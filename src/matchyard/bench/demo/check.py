"""Check the demo: compare all rows of the stream with the matches of an embedded index."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import matchyard as my
from matchyard.bench.demo.pipeline import Places, number_of
from matchyard.bench.demo.tally import Change


class Checked(NamedTuple):
    """The number of compared pairs, and the first difference."""

    tweets: int
    pairs: int
    dead_letters: int
    versions: int
    seconds: float
    problem: str | None


def check(places: Places, changes: Sequence[Change], threads: int) -> Checked:
    """Match all tweets again, batch by batch, with an embedded index in the state of its version.

    `add_many`, `add` and `remove` build that index from the files of interests and the changes.
    """
    start = time.perf_counter()
    tweets = pq.read_table(places.tweets).combine_chunks()
    tags, numbers = tweets["tags"].combine_chunks(), np.asarray(number_of(tweets["id"]))
    row_of = np.argsort(numbers)  # tweets are numbered from 0 without gaps
    reference = _reference(places.interests, threads)
    folders = sorted(places.matches.glob("batch=*"), key=_number)
    seen, n_pairs, applied, problem = [np.zeros(0, np.int64)], 0, 1, None
    versions: set[int] = set()
    for folder in folders:
        rows = pq.read_table(folder, columns=["id", "keys", "version"]).combine_chunks()
        if not len(rows):
            continue
        ids, version = np.asarray(number_of(rows["id"])), rows["version"][0].as_py()
        if pc.count_distinct(rows["version"]).as_py() != 1 or version < applied:
            problem = problem or f"{folder.name} has rows of several versions, or of an old one"
            continue
        for change in changes:
            if applied < change.version <= version:
                _apply(reference, change)
        applied = version
        versions.add(version)
        lists = rows["keys"].combine_chunks()
        there = _pairs(ids, pc.list_value_length(lists), np.asarray(lists.flatten()))
        again = reference.match(tags.take(pa.array(row_of[ids])))
        lengths = np.concatenate([np.diff(part.event_start) for part in again.parts])
        here = _pairs(ids, lengths, np.concatenate([part.keys for part in again.parts]))
        if there != here:
            problem = problem or (
                f"{folder.name}: the stream wrote {there[0]:,} pairs, an embedded index of the "
                f"same version finds {here[0]:,}" + (", but others" * (there[0] == here[0]))
            )
        seen.append(ids)
        n_pairs += there[0]
    dead = _dead(places.dead_letters)
    problem = problem or _missing(tags, row_of, np.concatenate(seen), dead)
    seconds = time.perf_counter() - start
    n_tweets = sum(map(len, seen))
    return Checked(n_tweets, n_pairs, len(dead), len(versions), seconds, problem)


def _number(folder: Path) -> int:
    return int(folder.name.partition("=")[2])


def _reference(interests: Path, threads: int) -> my.TagIndex:
    index = my.TagIndex(live=True, threads=threads)
    for file in sorted(interests.glob("*.parquet")):
        table = pq.read_table(file)
        index.add_many(table["tags"].combine_chunks(), table["key"].to_numpy())
    index.consolidate()
    return index


def _apply(index: my.TagIndex, change: Change) -> None:
    for key in change.removed:
        index.remove(key)
    for tags, key in change.added:
        index.add(set(tags), key=key)


def _pairs(ids: NDArray[np.int64], lengths: Any, keys: NDArray[np.int64]) -> tuple[int, int]:
    """The number of pairs, and the sum of their hashes, which does not depend on their order."""
    owners = np.repeat(ids, np.asarray(lengths)).view(np.uint64)
    mixed = owners * np.uint64(0x9E3779B97F4A7C15) ^ keys.astype(np.int64).view(np.uint64)
    mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return len(keys), int((mixed ^ mixed >> np.uint64(32)).sum())


def _dead(folder: Path) -> NDArray[np.int64]:
    parts = [pq.read_table(one, columns=["id"]) for one in sorted(folder.glob("batch=*"))]
    ids = [number_of(part["id"]) for part in parts if len(part)]
    return np.concatenate([np.asarray(one) for one in ids]) if ids else np.zeros(0, np.int64)


def _missing(
    tags: Any, row_of: NDArray[np.int64], seen: NDArray[np.int64], dead: NDArray[np.int64]
) -> str | None:
    """The problem if a tweet is missing or repeated; unreadable tweets must be dead letters."""
    has_null = np.zeros(len(tags), bool)
    has_null[np.asarray(pc.list_parent_indices(tags))[np.asarray(tags.flatten().is_null())]] = True
    is_bad = (np.asarray(tags.is_null()) | has_null)[row_of]
    if not np.array_equal(np.sort(dead), np.flatnonzero(is_bad)):
        return f"{len(dead)} dead letters, but {is_bad.sum()} other tweets cannot be read"
    if not np.array_equal(np.sort(seen), np.flatnonzero(~is_bad)):
        return f"{len(seen):,} tweets came out, of {(~is_bad).sum():,} that went in"
    return None
