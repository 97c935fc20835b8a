"""IP addresses (as `ipaddress` reads them) as hex text in the order of the addresses."""

from __future__ import annotations

import numpy as np
from numba import njit

_LONGEST = 45  # bytes of an IPv6 address that ends in an IPv4 address


@njit(nogil=True, cache=True)
def _hex(digit):
    return np.uint8(digit + (48 if digit < 10 else 87))


@njit(nogil=True, cache=True)
def _dotted(text, start, end, out, n_out):
    """Write the eight digits of an IPv4 address; false if the text is none."""
    n_octets, value, n_digits = 0, 0, 0
    for position in range(start, end + 1):
        if position == end or text[position] == 46:
            if n_digits == 0 or n_octets == 4 or value > 255:
                return False
            out[n_out], out[n_out + 1] = _hex(value >> 4), _hex(value & 15)
            n_out += 2
            n_octets += 1
            value, n_digits = 0, 0
            continue
        digit = np.int64(text[position]) - 48
        if not 0 <= digit <= 9 or n_digits == 3 or (n_digits == 1 and value == 0):
            return False
        value = 10 * value + digit
        n_digits += 1
    return n_octets == 4


@njit(nogil=True, cache=True)
def _group(text, start, end, out, n_out):
    """Write the four digits of one group of an IPv6 address; false if it is none."""
    n_digits = end - start
    if not 1 <= n_digits <= 4:
        return False
    for i in range(4 - n_digits):
        out[n_out + i] = 48
    for i in range(n_digits):
        byte = text[start + i]
        if not (48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102):
            return False
        out[n_out + 4 - n_digits + i] = byte | 32  # digits have that bit already
    return True


@njit(nogil=True, cache=True)
def _zone(text, start, end):
    """Where the zone begins, as in `fe80::1%eth0`: without one, the end; -1 if it is no zone."""
    for position in range(start, min(end, start + _LONGEST + 1)):
        if text[position] == 37:
            for i in range(position + 1, end):
                if text[i] == 37 or text[i] == 47:
                    return -1
            return position if position + 1 < end else -1
    return end


@njit(nogil=True, cache=True)
def address(text, start, end, out):
    """Write a text's address to `out`, which has room for 33 bytes; returns the length, 0 for none."""
    if _dotted(text, start, end, out, 1):
        out[0] = 52
        return 9
    end = _zone(text, start, end)  # a network has the addresses of all zones
    if end - start < 2:
        return 0
    out[0] = 54
    n_groups, gap = 0, -1
    position = start
    if text[start] == 58:
        if text[start + 1] != 58:
            return 0
        gap, position = 0, start + 2
    while position < end:
        stop = position
        while stop < end and text[stop] != 58:
            stop += 1
        if n_groups == 8:
            return 0
        if stop == end and n_groups <= 6 and _dotted(text, position, end, out, 1 + 4 * n_groups):
            n_groups += 2
        elif _group(text, position, stop, out, 1 + 4 * n_groups):
            n_groups += 1
        else:
            return 0
        position = stop
        if position < end:
            position += 1
            if position == end:
                return 0  # a single colon at the end
            if text[position] == 58:
                if gap >= 0:
                    return 0
                gap = n_groups
                position += 1
    if (gap < 0 and n_groups != 8) or (gap >= 0 and n_groups > 7):
        return 0
    if gap >= 0:
        n_after = 4 * (n_groups - gap)
        for i in range(n_after):
            out[32 - i] = out[4 * n_groups - i]
        for i in range(1 + 4 * gap, 33 - n_after):
            out[i] = 48
    return 33
