"""Keep copies of the arrays of tables on cards, and values that were computed from them.

The arrays of a table never change, so all threads share a copy. It is made once per card, at the
first request, and freed together with the array or by `forget`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.gpu.devices import forget_memory, guarded, here, the_cupy
from matchyard.threads.forks import start_fresh_in_child


def owner_of(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Kept:
    """Values on cards, by the array from which they were computed."""

    def __init__(self) -> None:
        # Each value with the finalizer that removes it together with its array.
        self._things: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._start_fresh()

    def _start_fresh(self) -> None:
        """Make a new lock: a forked child must not inherit one that another thread holds."""
        self._lock = threading.RLock()  # `make` may ask for other kept values

    def of(self, array: NDArray[Any], what: Hashable, make: Callable[[], Any]) -> Any:
        """The value `what` of an array on the card of this thread, made at the first request."""
        owner = owner_of(array)
        key = id(owner), here(), array.ctypes.data, array.nbytes, what
        with self._lock:
            if key not in self._things:
                thing = make()
                finalizer = weakref.finalize(owner, self._things.pop, key, None)
                self._things[key] = thing, finalizer
            return self._things[key][0]

    def forget(self, arrays: Iterable[NDArray[Any]]) -> None:
        """Drop the values of these arrays on all cards."""
        owners = {id(owner_of(array)) for array in arrays}
        with self._lock:
            for key in list(self._things):  # finalizers may remove other keys meanwhile
                if key[0] in owners and (entry := self._things.pop(key, None)):
                    entry[1].detach()

    def __len__(self) -> int:
        return len(self._things)


kept = Kept()
start_fresh_in_child(kept)


def on_card(array: NDArray[Any]) -> Any:
    """The copy of a constant array on the card; an empty array gets one element, for an address."""
    return kept.of(array, "copy", lambda: _copied(array))


def keys_on_card(keys: NDArray[np.int64]) -> Any:
    """The copy of a table's keys on the card, in 32 bits each if all of them fit.

    The transfer of keys back to the host takes most of the time of a match with many keys.
    """
    return kept.of(keys, "narrow copy", lambda: _copied(_narrowed(keys)))


def forget(tables: Iterable[Any]) -> None:
    """Free the copies of some tables on all cards."""
    kept.forget(array for table in tables for array in table)
    forget_memory()


def _copied(array: NDArray[Any]) -> Any:
    cupy = the_cupy()
    with guarded(f"a copy of {array.nbytes:,} bytes of the index"):
        copy = cupy.asarray(array) if array.size else cupy.zeros(1, array.dtype)
        cupy.cuda.get_current_stream().synchronize()
    return copy


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        return array
    return array.astype(np.int32)
