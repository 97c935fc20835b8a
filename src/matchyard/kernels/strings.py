"""Map names to ids: a hash table over strings that checks every hit byte by byte.

Ids are row numbers of the string column. A slot of the table is one 64-bit word: the upper half of
the name's hash, and the id. An unknown name therefore costs one cache miss. Many names are looked
up together, so that their cache misses overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.growing import copied, put
from matchyard.kernels.hashing import is_equal, prefetch, xxh64

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])
Scalar = TypeVar("Scalar", bound=np.generic)

UNKNOWN = -1
_LOW = np.uint64(0xFFFFFFFF)
BLOCK = 32  # names looked up together: enough overlapping misses, and the hashes stay in L1


class Names(NamedTuple):
    """Names by id, the number of uses of each, and the hash table over them."""

    slots: NDArray[np.uint64]  # [n_slots] upper half of the hash, lower half id + 1; 0 is free
    text_start: NDArray[np.signedinteger]  # [n_names + 1] Arrow offsets by id; 32 bits if they fit
    text: NDArray[np.uint8]  # [text_start[-1]] UTF-8
    uses: NDArray[np.int64]  # [n_runs, 2] end, count: ids up to `end` are used `count` times each

    @property
    def n_names(self) -> int:
        """The number of names."""
        return len(self.text_start) - 1

    def name(self, number: int) -> str:
        """The name with the id `number`."""
        return bytes(self.text[self.text_start[number] : self.text_start[number + 1]]).decode()

    def counts(self) -> NDArray[np.int64]:
        """The number of uses of each name, by id; descending, since ids are ranks by frequency."""
        return np.repeat(self.uses[:, 1], np.diff(self.uses[:, 0], prepend=0))

    def to_arrow(self) -> pa.Array:
        """The names by id, as an Arrow column over the same memory."""
        start, text = pa.py_buffer(self.text_start), pa.py_buffer(self.text)
        kind = pa.LargeStringArray if self.text_start.itemsize == 8 else pa.StringArray
        return kind.from_buffers(self.n_names, start, text)


def n_bytes(arrays: Any) -> int:
    """Bytes of an array, or of all arrays in a tuple, which may contain tuples."""
    if isinstance(arrays, tuple):
        return sum(map(n_bytes, arrays))
    return int(arrays.nbytes)


_UNCOUNTED = np.empty((0, 2), np.int64)


def n_slots_for(n_names: int) -> int:
    """The number of slots with which the table is at most three quarters full."""
    return max(8, n_names + n_names // 3 + 1)


class Interner:
    """A growing table of names, with ids in the order of appearance."""

    def __init__(self, known: Names | None = None) -> None:
        self._count = np.zeros(1, np.int64)  # the kernel changes it together with the names
        self._slots = np.zeros(1024, np.uint64)
        self._text_start = np.zeros(1024, np.int64)
        self._text = np.empty(4096, np.uint8)
        if known is not None:
            self._count[0] = known.n_names
            self._slots = known.slots.copy()
            self._text_start = known.text_start.astype(np.int64)
            self._text = known.text.copy()

    @property
    def n_names(self) -> int:
        """The number of names so far."""
        return int(self._count[0])

    def intern(self, text: NDArray[np.uint8], text_start: NDArray[np.int64]) -> NDArray[np.int32]:
        """The ids of the given names; new names get the next free ids."""
        ids = np.empty(len(text_start) - 1, np.int32)
        step = 1 << 20
        for start in range(0, len(ids), step):
            stop = min(len(ids), start + step)
            self._reserve(stop - start, int(text_start[stop] - text_start[start]))
            growing = Names(self._slots, self._text_start, self._text, _UNCOUNTED)
            _intern(growing, self._count, text, text_start[start : stop + 1], ids[start:stop])
        return ids

    def intern_arrow(self, words: pa.Array) -> NDArray[np.int32]:
        """The ids of an Arrow column of names."""
        text_start, text = string_buffers(words)
        return self.intern(text, text_start)

    def add(self, names: Sequence[bytes]) -> NDArray[np.int32]:
        """The ids of few names; new names get the next free ids. The interpreter's lock is kept: a thread that
        gives it back waits for other threads longer than this takes."""
        text_start = np.zeros(len(names) + 1, np.int64)
        np.cumsum([len(name) for name in names], out=text_start[1:])
        self._reserve(len(names), int(text_start[-1]))
        ids = np.empty(len(names), np.int32)
        growing = Names(self._slots, self._text_start, self._text, _UNCOUNTED)
        _intern_few(growing, self._count, np.frombuffer(b"".join(names), np.uint8), text_start, ids)
        return ids

    def find(self, name: bytes) -> int:
        """The id of one name, or a negative number."""
        return find_one(self.names(), name)

    def names(self) -> Names:
        """The names so far, as read-only views."""
        start = self._text_start[: self.n_names + 1]  # first: the text grows before the offsets
        return freeze(Names(self._slots, start, self._text[: int(start[-1])], _UNCOUNTED))

    def copied(self) -> Names:
        """The names so far, in arrays of their own."""
        names = self.names()
        return names._replace(
            slots=copied(names.slots), text_start=copied(names.text_start), text=copied(names.text)
        )

    def _reserve(self, n_new: int, n_bytes: int) -> None:
        if self.n_names + n_new >= len(self._text_start):
            self._text_start = _grown(self._text_start, self.n_names + n_new + 1, self.n_names + 1)
        used = int(self._text_start[self.n_names])
        if used + n_bytes > len(self._text):
            self._text = _grown(self._text, used + n_bytes, used)
        if n_slots_for(self.n_names + n_new) > len(self._slots):
            self._slots = np.zeros(n_slots_for(2 * (self.n_names + n_new)), np.uint64)
            _fill(self._slots, self._text_start[: self.n_names + 1], self._text)


def string_buffers(words: pa.Array, widen: bool = True) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Offsets and bytes of an Arrow column of strings or bytes, without a copy of the bytes.
    Offsets are copied if `widen` makes them 64 bits wide."""
    _, offsets, data = words.buffers()
    is_large = pa.types.is_large_string(words.type) or pa.types.is_large_binary(words.type)
    width = np.int64 if is_large else np.int32
    text = np.frombuffer(data or b"", np.uint8)
    text.flags.writeable = False  # the same type as of Python strings: kernels are compiled once
    if offsets is None or len(words) == 0:
        return np.zeros(1, np.int64), text
    start = np.frombuffer(offsets, width)[words.offset : words.offset + len(words) + 1]
    return start.astype(np.int64) if widen else start, text


def find_one(names: Names, name: bytes) -> int:
    """The id of one name, or a negative number. The interpreter's lock is kept, see `Interner.add`."""
    return int(_find_one(names, np.frombuffer(name, np.uint8)))


def find_names(names: Names, words: pa.Array) -> NDArray[np.int64]:
    """The ids of an Arrow column of names, or UNKNOWN."""
    text_start, text = string_buffers(words)
    ids = np.empty(len(words), np.int64)
    _find_all(names, text, text_start, ids)
    return ids


def rank_names(names: Names, counts: NDArray[np.int64]) -> tuple[Names, NDArray[np.int32]]:
    """Give names new ids by descending count; also returns the new id of each old one, or -1."""
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    rank = np.full(len(counts), -1, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    text_start, text = take_names(names, order)
    if text_start[-1] < 1 << 31:
        text_start = text_start.astype(np.int32)
    slots = np.zeros(n_slots_for(len(order)), np.uint64)
    _fill(slots, text_start, text)
    falling = counts[order]
    ends = np.flatnonzero(np.diff(falling, append=0)) + 1  # counts are at least 1
    uses = np.stack([ends, falling[ends - 1]], axis=1).astype(np.int64)
    return freeze(Names(slots, text_start, text, uses)), rank


def freeze(arrays: Arrays) -> Arrays:
    """Read-only views of a NamedTuple of arrays, which may contain such tuples.

    Compiled kernels then see one array type, for arrays that are built here or mapped from disk.
    """
    views: list[Any] = []
    for array in arrays:
        if isinstance(array, tuple):
            views.append(freeze(array))
            continue
        view = array.view()
        view.flags.writeable = False
        views.append(view)
    return type(arrays)(*views)


def _grown(array: NDArray[Scalar], n_needed: int, n_used: int) -> NDArray[Scalar]:
    grown = np.empty(max(n_needed, 2 * len(array)), array.dtype)
    grown[:n_used] = array[:n_used]
    return grown


def take_names(
    names: Names, ids: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and bytes of the names with these ids, one after the other."""
    taken: tuple[NDArray[np.int64], NDArray[np.uint8]] = _take(names.text_start, names.text, ids)
    return taken


@njit(nogil=True, cache=True)
def _take(text_start, text, order):
    start = np.empty(len(order) + 1, np.int64)
    start[0] = 0
    for i in range(len(order)):
        start[i + 1] = start[i] + text_start[order[i] + 1] - text_start[order[i]]
    taken = np.empty(start[-1], np.uint8)
    for i in range(len(order)):
        source = text_start[order[i]]
        for j in range(start[i + 1] - start[i]):
            taken[start[i] + j] = text[source + j]
    return start, taken


@njit(nogil=True, cache=True)
def home(code, n_slots):
    """The first slot of a hash in the probe sequence."""
    return np.int64(((code & _LOW) * np.uint64(n_slots)) >> np.uint64(32))


@njit(nogil=True, cache=True)
def find_name(names, code, text, start, end):
    """The id of one name, or the complement of the free slot for it."""
    slots, name_start, name_text = names.slots, names.text_start, names.text
    position = home(code, len(slots))
    upper = code >> np.uint64(32)
    length = end - start
    while True:
        slot = slots[position]
        if slot == np.uint64(0):
            return ~position
        if slot >> np.uint64(32) == upper:
            name = np.int64(slot & _LOW) - 1
            begin = name_start[name]
            if name_start[name + 1] - begin == length and is_equal(
                name_text, begin, text, start, length
            ):
                return name
        position += 1
        if position == len(slots):
            position = 0


@njit(cache=True)
def _find_one(names, text):
    return find_name(names, xxh64(text, 0, len(text)), text, 0, len(text))


@njit(nogil=True, cache=True)
def hash_block(slots, text, text_start, first, codes):
    """Hash the names from `first` on and prefetch their slots; returns the number of names."""
    n_block = min(len(codes), len(text_start) - 1 - first)
    for i in range(n_block):
        codes[i] = xxh64(text, text_start[first + i], text_start[first + i + 1])
        prefetch(slots, home(codes[i], len(slots)))
    return n_block


@njit(nogil=True, cache=True)
def _likely_name(slots, code):
    """The first name with the same upper half of the hash, or UNKNOWN."""
    position = home(code, len(slots))
    upper = code >> np.uint64(32)
    while True:
        slot = slots[position]
        if slot == np.uint64(0):
            return UNKNOWN
        if slot >> np.uint64(32) == upper:
            return np.int64(slot & _LOW) - 1
        position += 1
        if position == len(slots):
            position = 0


@njit(nogil=True, cache=True)
def find_block(names, text, text_start, first, codes, ids):
    """Write the ids of a block of names from `first` on, or UNKNOWN; returns the number of names.

    Each step runs for the whole block, so that the cache misses of a step overlap. Fields of `names` are
    read before the loops, since each read of a field, and each call with the tuple, counts references.
    """
    slots, name_start, name_text = names.slots, names.text_start, names.text
    n_block = hash_block(slots, text, text_start, first, codes)
    for i in range(n_block):
        ids[i] = _likely_name(slots, codes[i])
        if ids[i] >= 0:
            prefetch(name_start, ids[i])
    for i in range(n_block):
        if ids[i] >= 0:
            prefetch(name_text, name_start[ids[i]])
    for i in range(n_block):
        if ids[i] < 0:
            continue
        start, end = text_start[first + i], text_start[first + i + 1]
        begin, length = name_start[ids[i]], end - start
        is_same = name_start[ids[i] + 1] - begin == length
        if not (is_same and is_equal(name_text, begin, text, start, length)):
            ids[i] = max(find_name(names, codes[i], text, start, end), UNKNOWN)
    return n_block


@njit(nogil=True, cache=True)
def _fill(slots, text_start, text):
    codes = np.empty(BLOCK, np.uint64)
    for first in range(0, len(text_start) - 1, BLOCK):
        for i in range(hash_block(slots, text, text_start, first, codes)):
            position = home(codes[i], len(slots))
            while slots[position] != np.uint64(0):
                position += 1
                if position == len(slots):
                    position = 0
            slots[position] = (codes[i] >> np.uint64(32) << np.uint64(32)) | np.uint64(
                first + i + 1
            )


@njit(nogil=True, cache=True)
def _intern(names, count, text, text_start, ids):
    codes = np.empty(BLOCK, np.uint64)
    known = np.empty(BLOCK, np.int64)
    for first in range(0, len(ids), BLOCK):
        n_block = find_block(names, text, text_start, first, codes, known)
        for i in range(n_block):
            name = known[i]
            if name < 0:  # a new name; an earlier name of this block may have added it
                start, end = text_start[first + i], text_start[first + i + 1]
                name = find_name(names, codes[i], text, start, end)
                if name < 0:
                    n_names = count[0]
                    upper = codes[i] >> np.uint64(32) << np.uint64(32)
                    names.slots[~name] = upper | np.uint64(n_names + 1)
                    begin = names.text_start[n_names]
                    put(names.text, begin, text, start, end)
                    names.text_start[n_names + 1] = begin + end - start
                    name = n_names
                    count[0] = n_names + 1
            ids[first + i] = name


@njit(cache=True)
def _intern_few(names, count, text, text_start, ids):
    _intern(names, count, text, text_start, ids)


@njit(nogil=True, cache=True)
def _find_all(names, text, text_start, ids):
    codes = np.empty(BLOCK, np.uint64)
    for first in range(0, len(ids), BLOCK):
        find_block(names, text, text_start, first, codes, ids[first : first + BLOCK])


@njit(nogil=True, cache=True)
def hash_names(text_start, text):
    """The hash of each name."""
    codes = np.empty(len(text_start) - 1, np.uint64)
    for i in range(len(codes)):
        codes[i] = xxh64(text, text_start[i], text_start[i + 1])
    return codes
