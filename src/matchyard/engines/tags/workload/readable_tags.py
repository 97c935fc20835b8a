"""Write generated tags as words of syllables, which people can read and compare."""

from __future__ import annotations

import numpy as np
from numba import njit

_CONSONANTS = np.frombuffer(b"bcdfghjklmnprstvwyxz", np.uint8)
_VOWELS = np.frombuffer(b"aeiou", np.uint8)


@njit(nogil=True, cache=True)
def write_word(text, end, number):
    """Spell a number in syllables from `end` on; returns the end of the word."""
    while True:
        syllable = number % 100
        text[end] = _CONSONANTS[syllable // 5]
        text[end + 1] = _VOWELS[syllable % 5]
        end += 2
        number = number // 100 - 1
        if number < 0:
            return end
