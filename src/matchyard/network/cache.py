"""Content that a router keeps for those who ask later, by its identifier."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from matchyard.network.packet import DO_NOT_ANSWER, DO_NOT_STORE, KEEP, Kind, Packet


class Cache:
    """The packets that were used last: replies that have passed, and notifications that ask to be kept."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: OrderedDict[bytes, Packet] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Packet]:
        """From the one that goes next to the one that was used last."""
        return iter(self._kept.values())

    def offer(self, packet: Packet) -> None:
        """Keep a packet if it has an identifier and may be kept."""
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
        """The content that a request asks for, if it is here and the request takes it from a cache."""
        if not request.identifier or request.cache_control & DO_NOT_ANSWER:
            return None
        kept = self._kept.get(request.identifier)
        if kept is not None:
            self._kept.move_to_end(request.identifier)
        return kept
