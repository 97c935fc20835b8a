"""Buffers that grow while a kernel fills them.

Kernels copy element by element, or by `copy_run` if there are many: for an assignment to a slice Numba compiles a
check of the lengths with its error message, which takes a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numpy.typing import NDArray

from matchyard.kernels.intrinsics import intrinsic_with


def copied(values: Any) -> NDArray[Any]:
    """A copy of an array, `array` or bytearray. It keeps the interpreter's lock, which NumPy gives back for
    more than 500 elements: a thread then waits for every other one.

    >>> copied(bytearray(b"ab"))
    array([97, 98], dtype=uint8)
    """
    kind = np.asarray(values).dtype.str  # as text: NumPy has two types for int64
    return np.frombuffer(bytearray(values), kind)


@njit(nogil=True, cache=True)
def with_room(array, n_used, n_needed):
    """The array, or a copy of its used part that has room for `n_needed` and twice as much as before."""
    if n_needed <= len(array):
        return array
    larger = np.empty(max(2 * len(array), n_needed), array.dtype)
    put(larger, 0, array, 0, n_used)
    return larger


@njit(nogil=True, cache=True)
def with_rows(table, n_used, n_needed):
    """As `with_room`, for the rows of a table."""
    if n_needed <= len(table):
        return table
    larger = np.empty((max(2 * len(table), n_needed), table.shape[1]), table.dtype)
    for row in range(n_used):
        for column in range(table.shape[1]):
            larger[row, column] = table[row, column]
    return larger


@njit(nogil=True, cache=True)
def put(target, at, source, start, end):
    """Copy source[start:end] to `target` from `at` on. The two do not overlap."""
    for i in range(end - start):
        target[at + i] = source[start + i]


def _copy_run(target: Any, at: Any, source: Any, start: Any, n: Any) -> None:
    target[at : at + n] = source[start : start + n]


@intrinsic_with(_copy_run)
def copy_run(typingctx: Any, target: Any, at: Any, source: Any, start: Any, n: Any) -> Any:
    """Copy `n` elements of `source` from `start` on to `target` from `at` on, with the C library's `memcpy`: LLVM
    leaves a loop as it is, since the two might overlap. Both are contiguous and of one type."""
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        def place(number: int) -> Any:
            array = context.make_array(call.args[number])(context, builder, args[number])
            return builder.gep(array.data, [args[number + 1]])

        size = context.get_abi_sizeof(context.get_data_type(call.args[0].dtype))
        cgutils.raw_memcpy(builder, place(0), place(2), args[4], size)
        return context.get_dummy_value()

    return signature, generate
