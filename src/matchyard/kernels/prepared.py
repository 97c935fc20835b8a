"""Arrays that are handed to kernels by address, for calls that take microseconds.

For each array of an argument, Numba's dispatcher looks up its type, counts a reference and copies its
address and shape: 0.15 µs, and 10 µs for a table with its vocabulary. `Prepared` does this once. A
kernel then gets one pointer, and `opened` gives it the arrays, with the types that they have as
arguments.

    words   per array: address, shape, strides        (tuples within tuples are laid end to end)

The arrays live as long as the Python object `Prepared`. A kernel may change them, but must not return them
or a slice of them: they have no owner there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.typeof import typeof
from numba.extending import NativeValue, models, register_model, unbox

from matchyard.kernels.intrinsics import intrinsic_with

_WORD = ir.IntType(64)


class PreparedType(types.Type):  # type: ignore[misc]
    """The type of a `Prepared`, for Numba; it has the type of the arrays."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(name=f"Prepared({content})")

    @property
    def key(self) -> Any:
        """Types are equal if their keys are: names do not tell two classes of one name apart."""
        return self.content


class Prepared:
    """A tuple of arrays, or of such tuples, for `opened`.

    >>> pair = Prepared((np.arange(3), np.ones(2)))
    >>> [len(array) for array in pair.arrays]
    [3, 2]
    """

    __slots__ = ("_numba_type_", "_words", "address", "arrays")
    _numba_type_: PreparedType

    def __init__(self, arrays: tuple[Any, ...], like: Prepared | None = None) -> None:
        """`like` has arrays of the same types, which then need not be looked up."""
        self.arrays = arrays
        words: list[int] = []
        _add_words(arrays, words)
        self._words = np.array(words, np.int64)
        self.address = _address(self._words)
        self._numba_type_ = PreparedType(typeof(arrays)) if like is None else like._numba_type_


def _add_words(arrays: Any, words: list[int]) -> None:
    for one in arrays:
        if isinstance(one, tuple):
            _add_words(one, words)
        else:
            words += (_address(one), *one.shape, *one.strides)


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]  # half the time of `ctypes`
    return address


@register_model(PreparedType)
class _Pointer(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@unbox(PreparedType)
def _unbox(kind: Any, given: Any, call: Any) -> Any:
    number = call.pyapi.object_getattr_string(given, "address")
    pointer = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return NativeValue(call.builder.bitcast(pointer, _WORD.as_pointer()))


def _load(context: Any, builder: Any, kind: Any, words: Any, at: int) -> tuple[Any, int]:
    """A value of the type `kind` from the words from `at` on, and the place after them."""
    if not isinstance(kind, types.Array):
        values = []
        for part in kind.types:
            value, at = _load(context, builder, part, words, at)
            values.append(value)
        return context.make_tuple(builder, kind, values), at

    def word(number: int) -> Any:
        return builder.load(builder.gep(words, [_WORD(at + number)]))

    n, item_size = kind.ndim, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [word(1 + i) for i in range(n)]
    strides = [word(1 + n + i) for i in range(n)]
    if kind.layout == "C":  # known ahead: loops over it can be vector code
        strides[-1] = _WORD(item_size)
    data = builder.inttoptr(word(0), context.get_data_type(kind.dtype).as_pointer())
    return _array(context, builder, kind, data, shape, strides), at + 1 + 2 * n


def _array(
    context: Any, builder: Any, kind: Any, data: Any, shape: list[Any], strides: list[Any]
) -> Any:
    """An array at an address, without an owner whose references are counted."""
    array = context.make_array(kind)(context, builder)
    n_items = _WORD(1)
    for length in shape:
        n_items = builder.mul(n_items, length, flags=["nsw"])
    array.data, array.nitems = data, n_items
    array.itemsize = _WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic_with(lambda prepared: prepared.arrays)
def opened(typingctx: Any, prepared: Any) -> Any:
    """The arrays of a `Prepared`, within a kernel."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        return _load(context, builder, call.return_type, args[0], 0)[0]

    return prepared.content(prepared), generate


@intrinsic_with(lambda data: np.frombuffer(data, np.uint8))
def bytes_array(typingctx: Any, data: Any) -> Any:
    """The bytes of a Python `bytes` object as an array, within a kernel."""
    result = types.Array(types.uint8, 1, "C", readonly=True)

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        given = context.make_array(call.args[0])(context, builder, args[0])
        return _array(context, builder, result, given.data, [given.nitems], [_WORD(1)])

    return result(data), generate
