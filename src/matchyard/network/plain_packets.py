"""Fast forwarding of plain notifications as bytes, many at once; only their hop count changes.

A plain notification goes by tags to all applications, without caching. Most traffic is plain. A kernel reads such
notifications in place, without making a `Packet`; the router sends the same bytes with a new hop count.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.network.packets import HOPS, VERSION, read_notifications
from matchyard.network.packet import MOST_HOPS, key_to_bytes
from matchyard.network.router import Router
from matchyard.network.tables import Plane
from matchyard.routing import Descriptors
from matchyard.routing.applications import Key

_STAMP = struct.Struct(">QH")  # version and tree
_HOP_BYTES = [bytes([number]) for number in range(256)]


class Message(NamedTuple):
    """A message with a packet, its incoming interface, and the application that sent it, if local."""

    data: bytes
    interface: int
    sender: str | None


class Sent(NamedTuple):
    """The messages for each neighbour and application."""

    neighbours: dict[int, list[bytes]]  # by interface
    applications: list[tuple[Key, bytes]]
    others: list[int]  # rows of messages that are not plain, or that a router refuses


def forward_plain(router: Router, given: Sequence[Message], at: int) -> Sent:
    """Forward messages whose packets begin at byte `at`; give a tree to packets of applications."""
    if router.is_bloom:  # such packets carry filters; `Router` handles them one by one
        return Sent({}, [], list(range(len(given))))
    messages = [message.data for message in given]
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    start = np.append(0, np.cumsum(lengths - at))
    data = np.frombuffer(b"".join([message[at:] for message in messages]), np.uint8)
    fields = np.zeros((len(messages), 5), np.uint64)
    is_plain, id_start, ids = read_notifications(data, start, router.vocabulary.names(), fields)
    packets = Descriptors(router.vocabulary, id_start, ids)
    came_from = np.array([message.interface for message in given], np.int64)
    _admit(router, given, messages, fields, is_plain, came_from, at)
    sent = Sent({}, [], np.flatnonzero(~is_plain).tolist())
    for version in np.unique(fields[is_plain, 0]).tolist():
        rows = np.flatnonzero(is_plain & (fields[:, 0] == version))
        plane = router.planes.get(version)
        if plane is None:
            sent.others.extend(rows.tolist())
            continue
        trees = fields[:, 1].astype(np.int64)
        is_right = plane.are_on(trees[rows], came_from[rows]) & (fields[rows, 2] < MOST_HOPS)
        sent.others.extend(rows[~is_right].tolist())
        _forward(router, plane, messages, packets, rows[is_right], trees, came_from, at, sent)
    return sent


def _admit(
    router: Router,
    given: Sequence[Message],
    messages: list[bytes],
    fields: NDArray[np.uint64],
    is_plain: NDArray[np.bool_],
    came_from: NDArray[np.int64],
    at: int,
) -> None:
    """Give packets of applications a tree.
    A packet that already has a version, is not ASCII, or names another sender, is not plain: `Router` checks it."""
    is_new = (fields[:, 0] == 0) & (fields[:, 3] == 1)
    is_plain &= (came_from != 0) | is_new
    rows = np.flatnonzero(is_plain & (came_from == 0)).tolist()
    if not rows:
        return
    part, version, hops = router.plane.part, at + VERSION, at + HOPS
    stamps = [_STAMP.pack(part.version, number) for number in range(len(part.links))]
    for row, position in zip(rows, fields[rows, 4].tolist(), strict=True):
        message, sender = messages[row], _sender_bytes(given[row].sender or "")
        if message[at + position : at + position + len(sender)] != sender:
            is_plain[row] = False
            continue
        chosen = router.draw_tree()
        messages[row] = message[:version] + stamps[chosen] + message[hops:]
        fields[row, 0], fields[row, 1] = part.version, chosen


@lru_cache(maxsize=1024)
def _sender_bytes(key: str) -> bytes:
    return key_to_bytes(key)


def _forward(
    router: Router,
    plane: Plane,
    messages: Sequence[bytes],
    packets: Descriptors,
    rows: NDArray[np.int64],
    trees: NDArray[np.int64],
    came_from: NDArray[np.int64],
    at: int,
    sent: Sent,
) -> None:
    some = packets.take(rows)
    start, leaving = plane.rib.forward(some, trees[rows], came_from[rows])
    counts, hop = router.counts, at + HOPS
    is_for_some = np.diff(start) > 0
    is_here = np.zeros(len(rows), np.bool_)
    is_here[is_for_some] = leaving[start[:-1][is_for_some]] == 0
    here = np.flatnonzero(is_here)
    takers = dict(
        zip(here.tolist(), router.applications.who_wants(some.take(here)), strict=True)
        if len(here)
        else ()
    )
    ways = leaving.tolist()
    for position, (row, (low, high)) in enumerate(
        zip(rows.tolist(), pairwise(start.tolist()), strict=True)
    ):
        message = messages[row]
        keys = takers.get(position, ())
        sent.applications.extend([(key, message) for key in keys])
        low += position in takers
        if low < high:
            moved = message[:hop] + _HOP_BYTES[message[hop] + 1] + message[hop + 1 :]
            for interface in ways[low:high]:
                sent.neighbours.setdefault(interface, []).append(moved)
            counts.sent += high - low
        elif not keys and came_from[row] != 0:
            counts.false_forwards += 1
        counts.delivered += len(keys)
    counts.received += len(rows)
