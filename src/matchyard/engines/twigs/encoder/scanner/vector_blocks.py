"""Process blocks of 32 bytes in a few instructions: find the end of a run, count tags, copy."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from matchyard.kernels.intrinsics import intrinsic_with

WIDTH = 32
_VECTOR = ir.VectorType(ir.IntType(8), WIDTH)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n"))
_BEYOND_ASCII = bytes(range(128, 256))
_NAMES = (string.ascii_letters + string.digits + "-.:_").encode()


def _all(byte: int) -> Any:
    return ir.Constant(_VECTOR, [byte] * WIDTH)


def _is_stop(builder: Any, block: Any, stops: bytes) -> Any:
    """Lanes with one of the `stops`, a control character, or a byte beyond ASCII."""
    lanes = builder.icmp_signed("<", block, _all(32))  # bytes from 128 on are negative
    for byte in b"\t\n":
        lanes = builder.and_(lanes, builder.icmp_signed("!=", block, _all(byte)))
    for byte in stops:
        lanes = builder.or_(lanes, builder.icmp_signed("==", block, _all(byte)))
    return lanes


def _is_no_name(builder: Any, block: Any, stops: bytes) -> Any:
    """Lanes without a letter, a digit or one of `-.:_`."""
    lower = builder.or_(block, _all(32))
    lanes = builder.icmp_unsigned("<", builder.sub(lower, _all(97)), _all(26))
    low = builder.icmp_unsigned("<", builder.sub(block, _all(45)), _all(14))  # - . / 0-9 :
    low = builder.and_(low, builder.icmp_signed("!=", block, _all(47)))
    lanes = builder.or_(lanes, low)
    return builder.not_(builder.or_(lanes, builder.icmp_signed("==", block, _all(95))))


def _define_run(test: Any, stops: bytes, all_stops: bytes) -> Any:
    """Define `run(text, position)`: the number of the next 32 bytes before one of `all_stops`, the
    bytes that `test` finds with `stops`."""

    def run_plainly(text: Any, position: Any) -> Any:
        block = text[position : position + WIDTH].tolist()
        return np.int64(next((n for n in range(WIDTH) if block[n] in all_stops), WIDTH))

    @intrinsic_with(run_plainly)
    def run(typingctx: Any, text: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
            start = context.make_array(call.args[0])(context, builder, args[0]).data
            address = builder.gep(start, [args[1]])
            block = builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=1)
            lanes = builder.bitcast(test(builder, block, stops), ir.IntType(WIDTH))
            n_before = builder.cttz(lanes, ir.IntType(1)(0))
            return builder.zext(n_before, ir.IntType(64))

        return types.int64(text, types.int64), generate

    return run


def _copy_block(source: Any, start: Any, target: Any, into: Any) -> None:
    target[into : into + WIDTH] = source[start : start + WIDTH]


@intrinsic_with(_copy_block)
def copy_block(typingctx: Any, source: Any, start: Any, target: Any, into: Any) -> Any:
    """Copy 32 bytes."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        addresses = []
        for array, position in ((0, 1), (2, 3)):
            data = context.make_array(call.args[array])(context, builder, args[array]).data
            address = builder.gep(data, [args[position]])
            addresses.append(builder.bitcast(address, _VECTOR.as_pointer()))
        builder.store(builder.load(addresses[0], align=1), addresses[1], align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate


def _count_block(text: Any, position: Any) -> Any:
    block = text[position : position + WIDTH + 1].tobytes()
    return np.int64(block.count(b"<", 0, WIDTH) + block.count(b"/>"))


@intrinsic_with(_count_block)
def count_block(typingctx: Any, text: Any, position: Any) -> Any:
    """Count `<` and `/>` among the next 32 bytes."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        start = context.make_array(call.args[0])(context, builder, args[0]).data
        blocks = []
        for offset in range(2):
            address = builder.gep(start, [builder.add(args[1], ir.IntType(64)(offset))])
            pointer = builder.bitcast(address, _VECTOR.as_pointer())
            blocks.append(builder.load(pointer, align=1))
        less = builder.icmp_signed("==", blocks[0], _all(60))
        ends = builder.icmp_signed("==", blocks[0], _all(47))
        ends = builder.and_(ends, builder.icmp_signed("==", blocks[1], _all(62)))
        n_lanes = ir.IntType(WIDTH)
        lanes = builder.bitcast(builder.or_(less, ends), n_lanes)  # a byte is not both
        return builder.zext(builder.ctpop(lanes), ir.IntType(64))

    return types.int64(text, types.int64), generate


def _define_run_until(stops: bytes) -> Any:
    return _define_run(_is_stop, stops, stops + _CONTROLS + _BEYOND_ASCII)


text_run = _define_run_until(b"<&]")
value_run = _define_run_until(b"<&\"'")
markup_run = _define_run_until(b"-?]")
name_run = _define_run(_is_no_name, b"", bytes(set(range(256)) - set(_NAMES)))
