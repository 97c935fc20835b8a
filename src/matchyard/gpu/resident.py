"""What is kept on cards: copies of the arrays of tables, and what was made of them.

Arrays of a table are never changed, so what was made of one serves all threads. It is made once for
each card, when first asked for, and goes when the array goes or is told to.
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
    """The array that has the memory, of which there are several views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Kept:
    """Things by the array that they were made of."""

    def __init__(self) -> None:
        # With what takes a thing away when its array goes.
        self._things: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._start_fresh()

    def _start_fresh(self) -> None:
        """The lock, which a forked child must not inherit half way."""
        self._lock = threading.RLock()  # what is made may be made of things that are kept

    def of(self, array: NDArray[Any], what: Hashable, make: Callable[[], Any]) -> Any:
        """That of an array, on the card that is used here."""
        owner = owner_of(array)
        place = id(owner), here(), array.ctypes.data, array.nbytes, what
        with self._lock:
            if place not in self._things:
                thing = make()
                goes = weakref.finalize(owner, self._things.pop, place, None)
                self._things[place] = thing, goes
            return self._things[place][0]

    def forget(self, arrays: Iterable[NDArray[Any]]) -> None:
        """Keep nothing that was made of these arrays, on any card."""
        owners = {id(owner_of(array)) for array in arrays}
        with self._lock:
            for place in list(self._things):  # others may go meanwhile, with their arrays
                if place[0] in owners and (found := self._things.pop(place, None)):
                    found[1].detach()

    def __len__(self) -> int:
        return len(self._things)


kept = Kept()
start_fresh_in_child(kept)


def on_card(array: NDArray[Any]) -> Any:
    """The copy on the card of an array that nobody changes. An empty one has an element there, so
    that it has an address."""
    return kept.of(array, "copy", lambda: _copied(array))


def keys_on_card(keys: NDArray[np.int64]) -> Any:
    """The copy on the card of the keys of a table: 32 bits each where all of them fit, since it is
    the way back over the bus that takes most of the time of a match with many keys."""
    return kept.of(keys, "narrow copy", lambda: _copied(_narrowed(keys)))


def forget(tables: Iterable[Any]) -> None:
    """Free the memory that copies of some tables have on cards."""
    kept.forget(array for table in tables for array in table)
    forget_memory()


def _copied(array: NDArray[Any]) -> Any:
    cupy = the_cupy()
    with guarded(f"a copy of {array.nbytes:,} bytes of the index"):
        found = cupy.asarray(array) if array.size else cupy.zeros(1, array.dtype)
        cupy.cuda.get_current_stream().synchronize()
    return found


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        return array
    return array.astype(np.int32)
