"""Inspection of arrays from disk before a kernel uses them.

A kernel does not check its table: an offset beyond the end of an array would read foreign memory. So every
table and vocabulary is compared with its declaration when it is opened. Types, shapes, and the first and
last of the offsets are always compared, at a cost that does not depend on the size. A *thorough* inspection
also checks every value: offsets rise, ids are in range, trees are trees, and hash tables have a free slot.
Where such a check is hard, arrays are built anew from the subscriptions and compared. After a thorough
inspection, a damaged table can give wrong answers, but cannot crash a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import StorageError
from matchyard.kernels.csr import FREE
from matchyard.kernels.strings import Names, n_slots_for

_STEP = 1 << 20  # values checked together, so that NumPy's temporary arrays stay small
# The types of fields that are declared as signed or unsigned integers.
_WIDTHS: dict[Any, tuple[type[np.generic], ...]] = {
    np.signedinteger: (np.int32, np.int64),
    np.unsignedinteger: (np.uint8, np.uint16, np.uint32),
}


class Inspection:
    """The inspection of one NamedTuple of arrays. Every array must be inspected: see `finish`."""

    def __init__(self, arrays: Any, place: str, is_thorough: bool) -> None:
        self._arrays, self._place, self.is_thorough = arrays, place, is_thorough
        self._looked_at: set[str] = set()
        kind: Any = type(arrays)
        for name, kinds in _declared(kind).items():
            array = getattr(arrays, name)
            if kinds and array.dtype.type not in kinds:
                self.refuse(name, f"has values of {array.dtype}, expected {kinds[0].__name__}")

    def refuse(self, name: str, reason: str) -> None:
        """Raise StorageError about an array."""
        raise StorageError(f"{self._place}{name} {reason}")

    def expect(self, name: str, is_so: Any, reason: str) -> None:
        """Refuse an array unless a condition holds."""
        if not is_so:
            self.refuse(name, reason)

    def shape(self, name: str, *lengths: int | None) -> tuple[int, ...]:
        """Expect a length in each dimension; None accepts any. Return the shape."""
        actual: tuple[int, ...] = getattr(self._arrays, name).shape
        self._looked_at.add(name)
        is_so = len(actual) == len(lengths) and all(
            want is None or have == want for have, want in zip(actual, lengths, strict=True)
        )
        if not is_so:
            wanted = ", ".join("…" if length is None else str(length) for length in lengths)
            self.refuse(name, f"has the shape {actual}, expected ({wanted})")
        return actual

    def length(self, name: str) -> int:
        """Expect one dimension; return the length."""
        return self.shape(name, None)[0]

    def offsets(self, name: str, n_rows: int, end: int | None, first: int | None = 0) -> None:
        """Expect `n_rows` + 1 rising offsets from `first` to `end`."""
        array = getattr(self._arrays, name)
        self.expect(name, n_rows >= 0, "is empty")
        self.shape(name, n_rows + 1)
        if first is not None and array[0] != first:
            self.refuse(name, f"starts with {array[0]}, expected {first}")
        if end is not None and array[-1] != end:
            self.refuse(name, f"ends with {array[-1]}, expected {end}")
        if self.is_thorough and not rises(array):
            self.refuse(name, "falls somewhere, but offsets rise")

    def values(self, name: str, low: int, high: int, n_values: int | None = None) -> None:
        """Expect values from `low` to `high` - 1, and their number if given."""
        self.shape(name, n_values)
        if self.is_thorough:
            least, most = extremes(getattr(self._arrays, name))
            if least < low or most >= high:
                self.refuse(
                    name, f"has values from {least} to {most}, expected {low} to {high - 1}"
                )

    def rising(self, name: str, is_strict: bool = False) -> None:
        """Expect values that do not fall, or that strictly rise; checked only if thorough."""
        if self.is_thorough and not rises(getattr(self._arrays, name), is_strict):
            self.refuse(name, "falls somewhere, expected rising values")

    def distinct(self, name: str, values: NDArray[Any], n_values: int) -> None:
        """Expect distinct values below `n_values`; checked only if thorough."""
        if self.is_thorough and len(values):
            seen = np.zeros(n_values, np.bool_)
            seen[values] = True
            self.expect(name, np.count_nonzero(seen) == len(values), "has a value twice")

    def flags(self, name: str, n_values: int | None = None) -> None:
        """Expect truth values: bytes 0 and 1."""
        self.shape(name, n_values)
        if self.is_thorough and extremes(getattr(self._arrays, name).view(np.uint8))[1] > 1:
            self.refuse(name, "has values that are neither true nor false")

    def same(self, build: Callable[[], Any], but: tuple[str, ...] = ()) -> None:
        """Expect that all arrays except `but` equal the arrays that `build` makes; checked only if thorough.
        The check takes as long as building. It rules out any damage of these arrays."""
        if not self.is_thorough:
            return
        for name, expected in build()._asdict().items():
            if name in but:
                continue
            actual = getattr(self._arrays, name)
            is_so = actual is expected or (
                actual.dtype == expected.dtype and np.array_equal(actual, expected)
            )
            self.expect(name, is_so, "differs from the array that its subscriptions build")

    def key_table(self, n_rows: int) -> None:
        """Expect the four arrays at the end of every table: see `kernels.key_table`."""
        n_keys = self.length("keys")
        self.offsets("key_start", n_rows, n_keys)
        for name in ("removed_keys", "removed_at"):
            self.hash_set(name)

    def hash_set(self, name: str) -> None:
        """Expect a hash set of `csr.hash_set`: a power of two of slots, at least half free, and a flag."""
        array = getattr(self._arrays, name)
        n_slots = self.length(name) - 1
        self.expect(
            name, n_slots < 0 or (n_slots >= 2 and not n_slots & (n_slots - 1)), "is no hash set"
        )
        if self.is_thorough and n_slots > 0:
            n_used = n_slots - np.count_nonzero(array[:-1] == FREE)
            self.expect(name, 2 * n_used <= n_slots, "is a hash set with too few free slots")

    def names(self, name: str) -> int:
        """Expect names: see `kernels.names`. Return their number."""
        self._looked_at.add(name)
        names: Names = getattr(self._arrays, name)
        inspect_names(names, f"{self._place}{name}.", self.is_thorough)
        return names.n_names

    def finish(self) -> None:
        """Assert that every array was inspected: a forgotten field would be unsafe."""
        forgotten = set(self._arrays._fields) - self._looked_at
        assert not forgotten, f"{type(self._arrays).__name__}: not inspected: {sorted(forgotten)}"


def inspect_names(names: Names, place: str, is_thorough: bool) -> None:
    """Refuse names that are unsafe for look-ups."""
    look = Inspection(names, place, is_thorough)
    n_text = look.length("text")
    n_names = look.length("text_start") - 1
    look.offsets("text_start", n_names, n_text)
    look.expect("slots", look.length("slots") > n_names, "has no free slot")
    n_runs = look.shape("uses", None, 2)[0]
    ends = names.uses[:, 0]
    look.expect("uses", not n_runs or ends[-1] == n_names, f"does not end with {n_names}")
    if is_thorough:
        # Each name has one slot, and enough slots are free that look-ups end soon, also after additions.
        used = (names.slots[names.slots != 0] & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
        look.expect("slots", extremes(used)[1] < n_names, f"names more than {n_names} names")
        look.expect("slots", extremes(used)[0] >= 0, "has a slot of no name")
        look.expect("slots", len(used) == n_names, f"has {len(used)} slots for {n_names} names")
        look.distinct("slots", used, n_names)
        look.expect("slots", len(names.slots) >= n_slots_for(n_names), "has too few free slots")
        look.expect("uses", not n_runs or ends[0] > 0, "has a run of no names")
        look.expect("uses", rises(ends, is_strict=True), "has runs that do not end one by one")
        look.expect("uses", extremes(names.uses[:, 1])[0] >= 0, "has a negative count")
        try:
            names.to_arrow().validate(full=True)
        except ValueError as error:
            look.refuse("text", f"is not UTF-8: {str(error)[:200]}")
    look.finish()


@cache
def _declared(kind: Any) -> dict[str, tuple[type[np.generic], ...]]:
    """The types that each field may have; none for a field that is no array."""
    types = {}
    for name, hint in get_type_hints(kind).items():
        arguments = get_args(hint)
        number = get_args(arguments[1])[0] if len(arguments) == 2 else None
        types[name] = () if number is None else _WIDTHS.get(number, (number,))
    return types


def _steps(array: NDArray[Any]) -> Sequence[int]:
    return range(0, len(array), _STEP)


def rises(array: NDArray[Any], is_strict: bool = False) -> bool:
    """True if no value is smaller than the one before, or strictly: all are larger."""
    for start in _steps(array):
        part = array[max(0, start - 1) : start + _STEP]
        is_wrong = part[1:] <= part[:-1] if is_strict else part[1:] < part[:-1]
        if is_wrong.any():
            return False
    return True


def extremes(array: NDArray[Any]) -> tuple[int, int]:
    """The least and the largest value; (0, -1) for an empty array."""
    return (int(array.min()), int(array.max())) if array.size else (0, -1)
