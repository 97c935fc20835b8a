"""Keys: what a match returns. Integers stand for themselves, strings are numbered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.names import Interner, Names

_EXPECTED = "expected 64-bit integers or strings, the same kind throughout an index"
_LIMIT = 1 << 63


class Keys:
    """The kind of keys of one index, and the numbers of strings."""

    def __init__(self) -> None:
        self.kind = "none"  # then "int" or "str", decided by the first key
        self._interner = Interner()

    @classmethod
    def load(cls, names: Names | None, has_keys: bool) -> Keys:
        """The keys of a saved index."""
        keys = cls()
        if names is not None:
            keys.kind, keys._interner = "str", Interner(names)
        elif has_keys:
            keys.kind = "int"
        return keys

    def _expect(self, kind: str, example: Any) -> None:
        if self.kind not in ("none", kind):
            raise UsageError(f"key {example!r} in an index with {self.kind} keys; {_EXPECTED}")
        self.kind = kind

    def number(self, key: Any) -> int:
        """The number of one key; a new string gets the next one."""
        if isinstance(key, str):
            self._expect("str", key)
            return int(self._intern(pa.array([key], pa.large_string()))[0])
        number = _integer(key)
        self._expect("int", key)
        return number

    def find(self, key: Any) -> int | None:
        """The number of a key, if the index can have it."""
        if isinstance(key, str):
            if self.kind != "str":
                return None
            found = self._interner.find(key.encode())
            return None if found < 0 else found
        number = _integer(key)
        return number if self.kind == "int" else None

    def numbers(self, keys: Any) -> NDArray[np.int64]:
        """The numbers of many keys, given in any column-like form."""
        if hasattr(keys, "to_arrow"):
            keys = keys.to_arrow()
        if not isinstance(keys, pa.Array | pa.ChunkedArray):
            try:
                keys = pa.array(keys, from_pandas=True)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise UsageError(f"not keys: {error}; {_EXPECTED}") from None
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        if keys.null_count:
            raise UsageError(f"{keys.null_count} keys are null; {_EXPECTED}")
        if len(keys) == 0:
            return np.empty(0, np.int64)
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        if pa.types.is_integer(keys.type):
            self._expect("int", keys[0].as_py())
            try:
                numbers: NDArray[np.int64] = keys.cast(pa.int64()).to_numpy(zero_copy_only=False)
                return numbers
            except pa.ArrowInvalid as error:
                raise UsageError(f"not keys: {error}; {_EXPECTED}") from None
        if pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type):
            self._expect("str", keys[0].as_py())
            return self._intern(keys.cast(pa.large_string())).astype(np.int64)
        raise UsageError(f"not keys: a column of {keys.type}; {_EXPECTED}")

    def _intern(self, names: pa.Array) -> NDArray[np.int32]:
        return self._interner.intern_arrow(names)

    def table(self) -> Names | None:
        """The names of string keys with the table over them, to be saved."""
        return self._interner.names() if self.kind == "str" else None

    def names(self) -> pa.Array | None:
        """The names of string keys by number, as an Arrow column."""
        return self._interner.names().to_arrow() if self.kind == "str" else None


def _integer(key: Any) -> int:
    if isinstance(key, bool) or not isinstance(key, int | np.integer):
        raise UsageError(f"not a key: {key!r}; {_EXPECTED}")
    if not -_LIMIT <= int(key) < _LIMIT:
        raise UsageError(f"key {key} does not fit into 64 bits; {_EXPECTED}")
    return int(key)
