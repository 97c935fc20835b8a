"""The calls of applications (notify, request, reply), and packets in flight."""

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
    """Routers by name, and the state of their links."""

    def router(self, node: object) -> Router:
        """The router of a node."""

    def is_up(self, node: object, neighbour: object) -> bool:
        """True if packets can cross the link between two nodes."""


class Delivery(NamedTuple):
    """A packet that has reached an application."""

    key: Key
    node: str
    hops: int
    packet: Packet


class Flight:
    """A packet and its copies in flight. `run` moves them to their ends; `step` moves each by one hop.

    As a sequence, it contains the deliveries so far.
    """

    def __init__(self, network: Routers, packet: Packet, node: str) -> None:
        self.deliveries: list[Delivery] = []
        self.links: list[tuple[str, str]] = []  # the links taken so far, as (from, to)
        self.stops: list[tuple[str, str]] = []  # (node, reason) of copies that were not forwarded
        self.errors: list[PacketError] = []
        self._network = network
        self._waiting: dict[str, list[tuple[Packet, int]]] = {node: [(packet, 0)]}

    def __repr__(self) -> str:
        on_the_way = sum(map(len, self._waiting.values()))
        return f"<Flight: {len(self.deliveries)} delivered, {on_the_way} on their way>"

    def __len__(self) -> int:
        return len(self.deliveries)

    def __getitem__(self, position: int) -> Delivery:
        return self.deliveries[position]

    @property
    def keys(self) -> list[Key]:
        """The applications that received the packet, in the order of arrival."""
        return [delivery.key for delivery in self.deliveries]

    def step(self) -> bool:
        """Forward all copies by one hop; True if some are still in flight."""
        here, self._waiting = self._waiting, {}
        for node, some in here.items():
            router = self._network.router(node)
            packets, interfaces = zip(*some, strict=True)
            received = router.receive_all(packets, interfaces)
            for stop in received.stops:
                self.stops.append((node, stop.reason))
                if stop.is_error:
                    self.errors.append(PacketError(stop.reason))
            for _, interface, packet in received.out:
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
        """Move all copies until they have arrived or stopped."""
        while self.step():
            pass
        return self


class Service(ABC):
    """The calls by which applications send packets."""

    @abstractmethod
    def router(self, node: object) -> Router:
        """The router of a node."""

    @abstractmethod
    def send(self, packet: Packet, at: object, tree: int | None = None) -> Flight:
        """Start a packet at a node; `step` or `run` of the flight move it."""

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
        """Send a notification to all applications that want it, or to as many as the fan-out says."""
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
        """Request content by its tags, or at the locator `to` of an earlier reply.
        The request goes to applications that offer the content; a cache on the way may answer it."""
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
        """Answer a delivered request; the reply carries the locators of the answering router."""
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
    """Check the key of an application, which is text or a number."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise UsageError(f"key {key!r}; expected text or a number")
    return key
