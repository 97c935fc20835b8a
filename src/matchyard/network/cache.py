"""The cache of a router: content by identifier, for later requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from matchyard.network.packet import DO_NOT_ANSWER, DO_NOT_STORE, KEEP, Kind, Packet


class Cache:
    """A least-recently-used cache of replies, and of notifications with the flag KEEP."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: OrderedDict[bytes, Packet] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Packet]:
        """All packets, from the least to the most recently used."""
        return iter(self._kept.values())

    def offer(self, packet: Packet) -> None:
        """Store a packet if it has an identifier and its cache control allows it."""
        is_kept = packet.kind is Kind.REPLY or packet.cache_control & KEEP
        if not (is_kept and packet.identifier and self.room):
            return
        if packet.kind is Kind.REQUEST or packet.cache_control & DO_NOT_STORE:
            return
        self._kept[packet.identifier] = packet
        self._kept.move_to_end(packet.identifier)
        if len(self._kept) > self.room:
            self._kept.popitem(last=False)

    def answer(self, request: Packet) -> Packet | None:
        """The requested content, if it is cached and the request accepts cached content."""
        if not request.identifier or request.cache_control & DO_NOT_ANSWER:
            return None
        kept = self._kept.get(request.identifier)
        if kept is not None:
            self._kept.move_to_end(request.identifier)
        return kept
