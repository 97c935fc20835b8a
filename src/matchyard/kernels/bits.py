"""The bits of a double as an integer, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from matchyard.kernels.intrinsics import intrinsic_with


@intrinsic_with(lambda number: np.float64(number).view(np.int64))
def bits_of(typingctx: Any, number: Any) -> Any:
    """The bits of a double, as an integer."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic_with(lambda bits: np.int64(bits).view(np.float64))
def float_of(typingctx: Any, bits: Any) -> Any:
    """The double with these bits."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate
