"""Keys of subscribers. An integer key is its own number; string keys get numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.columns import as_arrow
from matchyard.errors import UsageError
from matchyard.kernels.key_table import narrowed
from matchyard.kernels.strings import Interner, Names, find_one, rank_names, take_names
from matchyard.storage import Blocks

_EXPECTED = "expected 64-bit integers or strings, the same kind throughout an index"
_LIMIT = 1 << 63
_SCALARS = (str, bytes, int, float, np.generic, type(None))


class Keys:
    """The kind of keys of one index, and the numbers of strings."""

    def __init__(self) -> None:
        self.kind = "none"  # then "int" or "str", decided by the first key
        self._known: Names | None = None  # names of a saved index, mapped from disk…
        self._growing: Interner | None = None  # …and copied here when names are added
        self._column: pa.Array | None = None  # of the names, as long as none is added
        self._unchecked: Collection[Blocks] = ()  # files of names

    @classmethod
    def load(cls, names: Names | None, has_keys: bool, unchecked: Collection[Blocks] = ()) -> Keys:
        """The keys of a saved index."""
        keys = cls()
        keys._unchecked = unchecked
        if names is not None:
            keys.kind, keys._known = "str", names
        elif has_keys:
            keys.kind = "int"
        return keys

    def _expect(self, kind: str, example: Any) -> None:
        if self.kind not in ("none", kind):
            raise UsageError(f"key {example!r} in an index with {self.kind} keys; {_EXPECTED}")
        self.kind = kind

    def number(self, key: Any) -> int:
        """The number of one key; a new string gets the next number."""
        if isinstance(key, str):
            name = _bytes(key)
            self._expect("str", key)
            return int(self._grown().add([name])[0])
        number = _integer(key)
        self._expect("int", key)
        return number

    def find(self, key: Any) -> int | None:
        """The number of a key, or None if no subscription of the index can have the key."""
        if isinstance(key, str):
            name = _bytes(key)
            if self.kind != "str":
                return None
            number = find_one(self._names(), name)
            return None if number < 0 else number
        number = _integer(key)
        return number if self.kind == "int" else None

    def numbers(self, keys: Any) -> NDArray[np.int64]:
        """The numbers of many keys, given in any column-like form."""
        column = key_column(keys)
        if len(column) == 0:
            return np.empty(0, np.int64)
        if pa.types.is_integer(column.type):
            self._expect("int", column[0].as_py())
            return integers(column)
        self._expect("str", column[0].as_py())
        return self._grown().intern_arrow(column).astype(np.int64)

    def _grown(self) -> Interner:
        if self._growing is None:
            self.check()
            self._growing, self._known = Interner(self._known), None
        return self._growing

    def check(self) -> None:
        """Check the names of a saved index."""
        for file in self._unchecked:
            file.check()

    def _names(self) -> Names:
        self.check()
        return self._outline()

    def _outline(self) -> Names:
        """The names, of which only the number is checked."""
        known = self._known  # once: another thread may be copying it
        if known is not None:
            return known
        return (self._growing or Interner()).names()

    @property
    def n_names(self) -> int:
        """The number of string keys, including those without a subscription."""
        names = self._growing or self._known
        return 0 if names is None else names.n_names

    def only(self, numbers: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
        """The string keys with these numbers, numbered anew in the same order; also returns the new number of
        each old one, or -1."""
        names = self._names()
        text_start, text = take_names(names, numbers)
        kept, rank = Keys(), np.full(names.n_names, -1, np.int64)
        kept.kind, kept._growing = "str", Interner()
        kept._growing.intern(text, text_start)
        rank[numbers] = np.arange(len(numbers))
        return kept, rank

    def used(self, tables: Sequence[Any]) -> tuple[Names | None, Sequence[Any]]:
        """For saving: the string keys that have a subscription, renumbered, and the tables."""
        if self.kind != "str":
            return None, tables
        names = self._names()
        counts = np.zeros(names.n_names, np.int64)
        for table in tables:
            counts += np.bincount(table.keys, minlength=names.n_names)
        kept, numbers = rank_names(names, counts)
        return kept, [table._replace(keys=narrowed(numbers[table.keys])) for table in tables]

    def names(self) -> pa.Array | None:
        """The names of string keys by number, as an Arrow column. Whoever reads it has matched before, or calls
        `check`."""
        if self.kind != "str":
            return None
        if self._column is None or len(self._column) != self.n_names:
            self._column = self._outline().to_arrow()
        return self._column


def _bytes(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise UsageError(f"key {key!r} is not valid Unicode; {_EXPECTED}") from None


def _integer(key: Any) -> int:
    if isinstance(key, bool) or not isinstance(key, int | np.integer):
        raise UsageError(f"not a key: {key!r}; {_EXPECTED}")
    if not -_LIMIT <= int(key) < _LIMIT:
        raise UsageError(f"key {key} does not fit into 64 bits; {_EXPECTED}")
    return int(key)


def key_column(keys: Any) -> pa.Array:
    """Keys as an Arrow column of integers or of large strings."""
    keys = as_arrow(keys)
    if not isinstance(keys, pa.Array):
        try:
            keys = as_arrow(pa.array(_without_objects(keys), from_pandas=True))
        except (pa.ArrowInvalid, TypeError, OverflowError, UnicodeEncodeError) as error:
            raise UsageError(f"not keys: {error}; {_EXPECTED}") from None
    if keys.null_count:
        raise UsageError(f"null among the keys, {keys.null_count:,} times; {_EXPECTED}")
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    if len(keys) == 0 or pa.types.is_integer(keys.type):
        return keys
    if pa.types.is_string(keys.type) or pa.types.is_string_view(keys.type):
        keys = keys.cast(pa.large_string())
    if not pa.types.is_large_string(keys.type):
        raise UsageError(f"not keys: a column of {keys.type}; {_EXPECTED}")
    return keys


def _without_objects(keys: Any) -> Any:
    """Refuse lists and objects as keys: Arrow ends the process if one of them contains itself."""
    kind = getattr(keys, "dtype", None)
    if isinstance(keys, range) or (kind is not None and not getattr(kind, "hasobject", False)):
        return keys
    keys = keys if hasattr(keys, "__len__") else list(keys)
    odd = [kind for kind in set(map(type, keys)) if not issubclass(kind, _SCALARS)]
    if odd:
        raise UsageError(f"not keys: some are of the type {odd[0].__name__}; {_EXPECTED}")
    return keys


def integers(column: pa.Array) -> NDArray[np.int64]:
    """A column of integer keys as numbers of 64 bits."""
    try:
        numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise UsageError(f"not keys: {error}; {_EXPECTED}") from None
    return numbers
