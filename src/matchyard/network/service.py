"""What applications do with routers that are connected: notify, request, reply; and packets on their way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

from matchyard.errors import UsageError
from matchyard.network.fan_out import ALL, ONE, FanOut
from matchyard.network.packet import Kind, Locator, Packet, PacketError
from matchyard.network.router import Router, reply_to
from matchyard.network.tables import checked_tags
from matchyard.routing.applications import Key


class Routers(Protocol):
    """Routers by name, and which of them are connected."""

    def router(self, node: object) -> Router:
        """The router of a node."""

    def is_up(self, node: object, neighbour: object) -> bool:
        """Can packets go from one node to another that it has a link to?"""


class Delivery(NamedTuple):
    """A packet that has reached an application."""

    key: Key
    node: str
    hops: int
    packet: Packet


class Flight:
    """A packet and its copies on their way. `run` lets them arrive; `step` moves each by one hop.

    It has a length and items: its deliveries so far.
    """

    def __init__(self, network: Routers, packet: Packet, node: str) -> None:
        self.deliveries: list[Delivery] = []
        self.links: list[tuple[str, str]] = []  # each link that was taken, from and to
        self.stops: list[tuple[str, str]] = []  # where copies ended that went no further, and why
        self.errors: list[PacketError] = []
        self._network = network
        self._waiting: dict[str, list[tuple[Packet, int]]] = {node: [(packet, 0)]}

    def __repr__(self) -> str:
        on_the_way = sum(map(len, self._waiting.values()))
        return f"<Flight: {len(self.deliveries)} delivered, {on_the_way} on their way>"

    def __len__(self) -> int:
        return len(self.deliveries)

    def __getitem__(self, place: int) -> Delivery:
        return self.deliveries[place]

    @property
    def keys(self) -> list[Key]:
        """Who got it, in the order of arrival."""
        return [delivery.key for delivery in self.deliveries]

    def step(self) -> bool:
        """Let every router that copies are at forward them; are some still on their way?"""
        here, self._waiting = self._waiting, {}
        for node, some in here.items():
            router = self._network.router(node)
            packets, interfaces = zip(*some, strict=True)
            found = router.receive_all(packets, interfaces)
            for stop in found.stops:
                self.stops.append((node, stop.reason))
                if stop.is_error:
                    self.errors.append(PacketError(stop.reason))
            for _, interface, packet in found.out:
                if interface == 0 and packet.addressee is not None:
                    self.deliveries.append(Delivery(packet.addressee, node, packet.hops, packet))
                else:
                    self._cross(node, router.neighbour(interface), packet)
        return bool(self._waiting)

    def _cross(self, node: str, neighbour: str, packet: Packet) -> None:
        if not self._network.is_up(node, neighbour):
            self.stops.append((node, f"the link from {node} to {neighbour} is down"))
            return
        self.links.append((node, neighbour))
        back = self._network.router(neighbour).interfaces[node]
        self._waiting.setdefault(neighbour, []).append((packet, back))

    def run(self) -> Flight:
        """Go on until all copies have arrived or ended."""
        while self.step():
            pass
        return self


class Service(ABC):
    """The calls of applications that send something."""

    @abstractmethod
    def router(self, node: object) -> Router:
        """The router of a node."""

    @abstractmethod
    def send(self, packet: Packet, at: object, tree: int | None = None) -> Flight:
        """Put a packet on its way at a node; it moves when the flight is told to."""

    def notify(
        self,
        tags: Any,
        at: object,
        payload: bytes = b"",
        fan_out: FanOut | str = ALL,
        tree: int | None = None,
        key: Key | None = None,
        identifier: bytes = b"",
        cache_control: int = 0,
    ) -> Flight:
        """Send a notification to those who want it: all of them, or as many as the fan-out says."""
        packet = Packet(
            Kind.NOTIFICATION,
            checked_tags(tags),
            fan_out=FanOut.parse(fan_out),
            payload=payload,
            sender=key,
            identifier=identifier,
            cache_control=cache_control,
        )
        return self.send(packet, at, tree).run()

    def request(
        self,
        tags: Any,
        at: object,
        key: Key,
        identifier: bytes = b"",
        fan_out: FanOut | str = ONE,
        to: tuple[Locator, ...] = (),
        addressee: Key | None = None,
        tree: int | None = None,
        cache_control: int = 0,
    ) -> Flight:
        """Ask for content by its tags, or with `to` at a locator that an earlier reply had. Who can answer gets
        the request; a cache on the way answers at once."""
        packet = Packet(
            Kind.REQUEST,
            None if tags is None else checked_tags(tags),
            to,
            fan_out=FanOut.parse(fan_out),
            sender=checked_key(key),
            identifier=identifier,
            addressee=addressee,
            cache_control=cache_control,
        )
        return self.send(packet, at, tree).run()

    def reply(
        self, request: Delivery, payload: bytes, identifier: bytes = b"", cache_control: int = 0
    ) -> Flight:
        """Answer a request that was delivered: to where it came from, with locators of who answers."""
        router = self.router(request.node)
        content = Packet(
            Kind.REPLY,
            request.packet.tags,
            identifier=identifier or request.packet.identifier,
            cache_control=cache_control,
            origin=router.locators(),
            sender=request.key,
            payload=payload,
        )
        return self.send(reply_to(request.packet, content), request.node).run()


def checked_key(key: Any) -> Key:
    """The key of an application, which is text or a number."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise UsageError(f"key {key!r}; expected text or a number")
    return key
