"""Removed keys with versions, against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchyard.index.removals import Tombstones
from matchyard.kernels.csr import FREE
from matchyard.kernels.tombstones import is_removed
from matchyard.matches import Part

KEYS = st.integers(-5, 40) | st.sampled_from([int(FREE), -1, 2**62, -(2**63) + 1])


@given(changes=st.lists(st.lists(KEYS, max_size=30), max_size=8), asked=st.lists(KEYS))
def test_a_reader_sees_the_removals_up_to_its_version(
    changes: list[list[int]], asked: list[int]
) -> None:
    tombstones, since = Tombstones(), {}
    for version, keys in enumerate(changes, start=1):
        tombstones.add(np.array(keys, np.int64), version)
        for key in keys:
            since.setdefault(key, version)
    assert tombstones.n_keys == len(since)
    keys = np.array(asked, np.int64)
    for version in range(len(changes) + 1):
        living = [key for key in asked if since.get(key, 99) > version]
        assert [key for key in asked if not is_removed(tombstones._slots, key, version)] == living
        front = keys.copy()
        n_living = tombstones.first_living(front, len(front), version)
        assert front[:n_living].tolist() == living
        half = len(asked) // 2
        part = tombstones.without(Part(np.array([0, half, len(asked)]), keys, 7), version)
        assert (part.keys.tolist(), part.candidates) == (living, 7)
        assert part.event_start[1] == sum(since.get(key, 99) > version for key in asked[:half])
        positions = tombstones.living_among(keys, np.arange(len(keys)), version)
        assert keys[positions].tolist() == living


def test_narrow_keys_of_a_card_stay_narrow() -> None:
    tombstones = Tombstones()
    tombstones.add(np.array([7]), 1)
    part = tombstones.without(Part(np.array([0, 3]), np.array([5, 7, 9], np.int32)), 1)
    assert (part.keys.dtype, part.keys.tolist()) == (np.int32, [5, 9])


@given(keys=st.sets(st.integers(0, 9)), numbers=st.permutations(range(10)))
def test_keys_are_renumbered_with_their_versions(keys: set[int], numbers: list[int]) -> None:
    tombstones = Tombstones()
    for key in sorted(keys):
        tombstones.add(np.array([key]), 10 + key)
    mapped = np.array([number if number < 7 else -1 for number in numbers])
    other = tombstones.renumbered(mapped)
    for key in keys:
        if mapped[key] >= 0:
            assert not is_removed(other._slots, mapped[key], 9 + key)
            assert is_removed(other._slots, mapped[key], 10 + key)
    assert other.n_keys == sum(mapped[key] >= 0 for key in keys)
