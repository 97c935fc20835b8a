"""Arrays from disk, looked at before a kernel gets them.

A kernel trusts its table: an offset beyond the end of an array reads memory that is not its own. So
every table and vocabulary is compared with what it declares when it is opened. Types, shapes, and
the first and last of the offsets are always compared, which costs the same for every size. A
*thorough* inspection also looks at every value: offsets rise, ids are in range, trees are trees and
hash tables have a free slot. Where that is hard to say, arrays are built anew from the subscriptions
and compared. After that, a table can give wrong answers and nothing worse.
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

_STEP = 1 << 20  # values looked at together, so that what NumPy makes of them stays small
# Fields that are declared as signed or unsigned have one of these types.
_WIDTHS: dict[Any, tuple[type[np.generic], ...]] = {
    np.signedinteger: (np.int32, np.int64),
    np.unsignedinteger: (np.uint8, np.uint16, np.uint32),
}


class Inspection:
    """One NamedTuple of arrays. Every array of it must be asked for: see `finish`."""

    def __init__(self, arrays: Any, place: str, is_thorough: bool) -> None:
        self._arrays, self._place, self.is_thorough = arrays, place, is_thorough
        self._looked_at: set[str] = set()
        kind: Any = type(arrays)
        for name, kinds in _declared(kind).items():
            array = getattr(arrays, name)
            if kinds and array.dtype.type not in kinds:
                self.refuse(name, f"has values of {array.dtype}, expected {kinds[0].__name__}")

    def refuse(self, name: str, reason: str) -> None:
        """An array that is not what it should be."""
        raise StorageError(f"{self._place}{name} {reason}")

    def expect(self, name: str, is_so: Any, reason: str) -> None:
        """Refuse an array unless something is so."""
        if not is_so:
            self.refuse(name, reason)

    def shape(self, name: str, *lengths: int | None) -> tuple[int, ...]:
        """An array of so many values in each dimension; None is any number. Returns the shape."""
        found: tuple[int, ...] = getattr(self._arrays, name).shape
        self._looked_at.add(name)
        is_so = len(found) == len(lengths) and all(
            want is None or have == want for have, want in zip(found, lengths, strict=True)
        )
        if not is_so:
            wanted = ", ".join("…" if length is None else str(length) for length in lengths)
            self.refuse(name, f"has the shape {found}, expected ({wanted})")
        return found

    def length(self, name: str) -> int:
        """How many values an array of one dimension has."""
        return self.shape(name, None)[0]

    def offsets(self, name: str, n_rows: int, end: int | None, first: int | None = 0) -> None:
        """Offsets of so many rows, and one more: from `first` to `end`, rising."""
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
        """Values from `low` to `high` - 1; so many, where that is known."""
        self.shape(name, n_values)
        if self.is_thorough:
            least, most = extremes(getattr(self._arrays, name))
            if least < low or most >= high:
                self.refuse(
                    name, f"has values from {least} to {most}, expected {low} to {high - 1}"
                )

    def rising(self, name: str, is_strict: bool = False) -> None:
        """Values that do not fall, or rise from each to the next; only a thorough look sees it."""
        if self.is_thorough and not rises(getattr(self._arrays, name), is_strict):
            self.refuse(name, "falls somewhere, expected rising values")

    def distinct(self, name: str, values: NDArray[Any], n_values: int) -> None:
        """Values below `n_values` of which none is there twice; only a thorough look sees it."""
        if self.is_thorough and len(values):
            seen = np.zeros(n_values, np.bool_)
            seen[values] = True
            self.expect(name, np.count_nonzero(seen) == len(values), "has a value twice")

    def flags(self, name: str, n_values: int | None = None) -> None:
        """Truth values; a byte other than 0 and 1 is none."""
        self.shape(name, n_values)
        if self.is_thorough and extremes(getattr(self._arrays, name).view(np.uint8))[1] > 1:
            self.refuse(name, "has values that are neither true nor false")

    def same(self, build: Callable[[], Any], but: tuple[str, ...] = ()) -> None:
        """Arrays that follow from others, but for some, are what `build` makes anew; only a thorough
        look asks. That takes as long as building them, and nothing they lead to can be wrong then."""
        if not self.is_thorough:
            return
        for name, expected in build()._asdict().items():
            if name in but:
                continue
            found = getattr(self._arrays, name)
            is_so = found is expected or (
                found.dtype == expected.dtype and np.array_equal(found, expected)
            )
            self.expect(name, is_so, "differs from what its subscriptions give when they are built")

    def key_table(self, n_rows: int) -> None:
        """The four arrays that every table ends in: see `kernels.csr`."""
        n_keys = self.length("keys")
        self.offsets("key_start", n_rows, n_keys)
        for name in ("removed_keys", "removed_at"):
            self.hash_set(name)

    def hash_set(self, name: str) -> None:
        """A hash set of `csr.hash_set`: a power of two of slots, one of them free, and a flag."""
        array = getattr(self._arrays, name)
        n_slots = self.length(name) - 1
        self.expect(
            name, n_slots < 0 or (n_slots >= 2 and not n_slots & (n_slots - 1)), "is no hash set"
        )
        if self.is_thorough and n_slots > 0:
            n_used = n_slots - np.count_nonzero(array[:-1] == FREE)
            self.expect(name, 2 * n_used <= n_slots, "is a hash set with too few free slots")

    def names(self, name: str) -> int:
        """Names: see `kernels.names`. Returns how many there are."""
        self._looked_at.add(name)
        names: Names = getattr(self._arrays, name)
        inspect_names(names, f"{self._place}{name}.", self.is_thorough)
        return names.n_names

    def finish(self) -> None:
        """Was every array looked at? A field that was forgotten here is a hole."""
        forgotten = set(self._arrays._fields) - self._looked_at
        assert not forgotten, f"{type(self._arrays).__name__}: no look at {sorted(forgotten)}"


def inspect_names(names: Names, place: str, is_thorough: bool) -> None:
    """Refuse names that look-ups must not be given."""
    look = Inspection(names, place, is_thorough)
    n_text = look.length("text")
    n_names = look.length("text_start") - 1
    look.offsets("text_start", n_names, n_text)
    look.expect("slots", look.length("slots") > n_names, "has no free slot")
    n_runs = look.shape("uses", None, 2)[0]
    ends = names.uses[:, 0]
    look.expect("uses", not n_runs or ends[-1] == n_names, f"does not end with {n_names}")
    if is_thorough:
        # Each name once, and so many free slots that a look-up ends soon, also after additions.
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
    """The types that each field may have; none for what is no array."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        arguments = get_args(hint)
        number = get_args(arguments[1])[0] if len(arguments) == 2 else None
        found[name] = () if number is None else _WIDTHS.get(number, (number,))
    return found


def _steps(array: NDArray[Any]) -> Sequence[int]:
    return range(0, len(array), _STEP)


def rises(array: NDArray[Any], is_strict: bool = False) -> bool:
    """Is no value smaller than the one before, or strictly: at most as large?"""
    for start in _steps(array):
        part = array[max(0, start - 1) : start + _STEP]
        is_wrong = part[1:] <= part[:-1] if is_strict else part[1:] < part[:-1]
        if is_wrong.any():
            return False
    return True


def extremes(array: NDArray[Any]) -> tuple[int, int]:
    """The least and the largest value; of no values, 0 and -1."""
    return (int(array.min()), int(array.max())) if array.size else (0, -1)
