"""Bloom signatures of tag sets: a few bits per tag, set by hashes of its name."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.kernels.bitset import ONE
from matchyard.kernels.hashing import mix64


@njit(nogil=True, cache=True)
def add_name(signature, code, n_bits, n_hashes):
    """Set the bits of a name with the given hash, each with its own hash. Double hashing, with its
    equal steps, has too few patterns in so few bits, and 20 times the false positives."""
    for number in range(n_hashes):
        word = mix64(code + np.uint64(number)) >> np.uint64(32)
        bit = (word * np.uint64(n_bits)) >> np.uint64(32)
        signature[np.int64(bit >> np.uint64(6))] |= ONE << (np.uint64(63) - (bit & np.uint64(63)))


@njit(nogil=True, cache=True)
def sign_sets(set_start, set_ids, codes, n_bits, n_hashes, n_words):
    """The signatures of sets of ids; `codes` has the hash of each id's name."""
    signatures = np.zeros((len(set_start) - 1, n_words), np.uint64)
    for row in range(len(set_start) - 1):
        for i in range(set_start[row], set_start[row + 1]):
            add_name(signatures[row], codes[set_ids[i]], n_bits, n_hashes)
    return signatures
