"""A station: a router with its sessions and its map of the network, without sockets. [Thesis 2.3.4]

    inputs (messages, acknowledgements, peers that appear) ──process──▶ messages in the sessions of peers

Routers flood their link states, so that each has the same map and grows the same trees from it. The version of
the trees comes from the map. A link is on the map from the first time that both ends have met until one of them is
told to forget it; that a neighbour cannot be reached for a while changes nothing, and its session keeps what it
misses.

The same inputs in the same batches give the same state. So a station that was killed is its last checkpoint and
the inputs since then: see `station_log`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from matchyard.network.messages import (
    LinkState,
    MessageKind,
    tags_from_bytes,
    update_from_bytes,
    updates_to_bytes,
)
from matchyard.network.packet import Packet, PacketError
from matchyard.network.plan import Plan
from matchyard.network.router import Router, TreeUpdate
from matchyard.network.sessions import Session
from matchyard.routing import from_links


class Role(IntEnum):
    """Who is at the other end of a session."""

    ROUTER = 1  # a neighbour, by its name
    CLIENT = 2  # somebody who registers and sends, by a number of its own
    TAIL = 3  # somebody who reads what came for an application, by the key of that


class Peer(NamedTuple):
    """The other end of a session."""

    role: Role
    name: str


class InputKind(IntEnum):
    """What has come from a peer."""

    MESSAGE = 1
    ACKNOWLEDGEMENT = 2  # number: the next message that it expects
    MEETING = 3  # number: its incarnation
    FAREWELL = 4  # it will not come again


class Input(NamedTuple):
    """Something that has come from a peer."""

    peer: Peer
    kind: InputKind
    number: int = 0
    data: bytes = b""


class Settings(NamedTuple):
    """What all routers of a network have in common, and how much each may keep."""

    trees: int = 8
    rule: str = "LC"
    seed: int = 1
    descriptors: str = "tags"
    session_bytes: int = 64 << 20
    message_bytes: int = 1 << 20
    cache: int = 256
    versions: int = 4
    clients: int = 4096

    def common(self) -> str:
        """What neighbours must agree on."""
        return f"{self.trees} trees by rule {self.rule}, seed {self.seed}, of {self.descriptors}"


class Station:
    """A router and what it needs to work among others.

    >>> oslo = Station("oslo", 7)
    >>> ada, tail = Peer(Role.CLIENT, "ada/1"), Peer(Role.TAIL, "ada")
    >>> from matchyard.network.messages import texts_to_bytes
    >>> wish = bytes([MessageKind.REGISTER]) + texts_to_bytes(["jazz"])
    >>> oslo.process([Input(ada, InputKind.MEETING), Input(ada, InputKind.MESSAGE, 0, wish)])
    >>> oslo.router.applications
    <1 applications, 1 registrations>
    """

    def __init__(self, name: str, incarnation: int, settings: Settings | None = None) -> None:
        self.name, self.incarnation = name, incarnation
        self.settings = settings or Settings()
        self.router = Router(
            name,
            self.settings.descriptors,
            cache=self.settings.cache,
            versions=self.settings.versions,
        )
        self.sessions: dict[Peer, Session] = {}
        self.states = {name: LinkState(name, 1, ())}
        self.plans: dict[int, Plan] = {}
        self.refused = 0  # messages that made no sense
        self.last_refusal = ""
        self._is_map_new = True
        self._packets: list[tuple[Packet, int]] = []
        self._renew()

    def __repr__(self) -> str:
        return f"<Station {self.name}: {len(self.sessions)} sessions, {self.router!r}>"

    def session(self, peer: Peer) -> Session:
        """The session with a peer, which may be new."""
        found = self.sessions.get(peer)
        if found is None:
            found = self.sessions[peer] = Session(self.settings.session_bytes)
            if peer.role is Role.CLIENT:
                self._forget_clients()
        return found

    def _forget_clients(self) -> None:
        """Clients that never said farewell make room for others, the oldest first."""
        clients = [peer for peer in self.sessions if peer.role is Role.CLIENT]
        for peer in clients[: len(clients) - self.settings.clients]:
            del self.sessions[peer]

    # ---------------------------------------------------------------- inputs

    def process(self, inputs: Sequence[Input]) -> None:
        """Take inputs: first what changes tables, then packets, all together."""
        for one in inputs:
            try:
                self._take(one)
            except PacketError as error:
                self._refuse(error)
        if self._is_map_new:
            self._renew()
        packets, self._packets = self._packets, []
        if packets:
            self._forward(packets)

    def _refuse(self, error: PacketError) -> None:
        self.refused += 1
        self.last_refusal = str(error)

    def _take(self, one: Input) -> None:
        if one.kind is InputKind.MEETING:
            self._meet(one.peer, one.number)
            return
        if one.kind is InputKind.FAREWELL:
            self.sessions.pop(one.peer, None)
            return
        session = self.session(one.peer)
        if one.kind is InputKind.ACKNOWLEDGEMENT:
            session.acknowledge(one.number)
        elif session.take(one.number):
            self._read(one.peer, one.data)

    def _meet(self, peer: Peer, incarnation: int) -> None:
        """A peer has connected. A new neighbour, or one that has lost its state, is told everything."""
        is_known = peer in self.sessions
        session = self.session(peer)
        if is_known and session.incarnation == incarnation:
            return
        session.restart(incarnation)
        if peer.role is not Role.ROUTER:
            return
        self.router.connect(peer.name)
        own = self.states[self.name]
        near = {*own.neighbours, peer.name}
        self._announce(tuple(sorted(near)))
        for state in self.states.values():
            self._tell(peer, MessageKind.LINK_STATE, state.to_bytes())

    def _read(self, peer: Peer, data: bytes) -> None:
        """Understand a message."""
        try:
            kind = MessageKind(data[0] if data else 0)
        except ValueError as error:
            raise PacketError(f"a message of no kind: {error}") from None
        content = data[1:]
        if kind is MessageKind.PACKET:
            interface = self.router.connect(peer.name) if peer.role is Role.ROUTER else 0
            self._packets.append((Packet.from_bytes(content), interface))
        elif peer.role is Role.ROUTER and kind is MessageKind.UPDATE:
            update = update_from_bytes(content)
            if update.version in self.router.planes:  # else of a map that is no longer, or not yet
                self._tell_all(self.router.apply(update, self.router.connect(peer.name)))
        elif peer.role is Role.ROUTER and kind is MessageKind.LINK_STATE:
            self._learn(peer, LinkState.from_bytes(content))
        elif peer.role is Role.CLIENT and kind is MessageKind.REGISTER:
            self._tell_all(self.router.register(_key(peer), [tags_from_bytes(content)]))
        elif peer.role is Role.CLIENT and kind is MessageKind.WITHDRAW:
            self._tell_all(self.router.withdraw(_key(peer), [tags_from_bytes(content)]))
        elif peer.role is Role.CLIENT and kind is MessageKind.FORGET:
            self._leave(content.decode(errors="replace"))
        else:
            raise PacketError(f"a message of kind {kind.name} from a {peer.role.name}")

    # ---------------------------------------------------------------- the map

    def _announce(self, neighbours: tuple[str, ...]) -> None:
        """Tell everybody who the neighbours of this router are."""
        own = self.states[self.name]
        self._flood(LinkState(self.name, own.sequence + 1, neighbours))

    def _flood(self, state: LinkState, but: Peer | None = None) -> None:
        self.states[state.name] = state
        self._is_map_new = True
        for peer in self.sessions:
            if peer.role is Role.ROUTER and peer != but:
                self._tell(peer, MessageKind.LINK_STATE, state.to_bytes())

    def _learn(self, peer: Peer, state: LinkState) -> None:
        known = self.states.get(state.name)
        if known is not None and known.sequence >= state.sequence:
            return
        if state.name == self.name:  # from before this router lost its state
            own = self.states[self.name]
            self._flood(LinkState(self.name, state.sequence + 1, own.neighbours))
        else:
            self._flood(state, but=peer)

    def _leave(self, neighbour: str) -> None:
        own = self.states[self.name]
        if neighbour not in own.neighbours:
            raise PacketError(f"{neighbour} is no neighbour of {self.name}; nothing to forget")
        self._announce(tuple(one for one in own.neighbours if one != neighbour))
        self.sessions.pop(Peer(Role.ROUTER, neighbour), None)

    def _renew(self) -> None:
        """Trees of the map as it is now."""
        self._is_map_new = False
        plan = plan_of(self.name, self.states, self.settings)
        if plan.version in self.router.planes:
            return
        self.plans[plan.version] = plan
        told = self.router.install(plan.part(plan.topology.node(self.name)))
        self.plans = {version: self.plans[version] for version in self.router.planes}
        self._tell_all(told)

    # ---------------------------------------------------------------- outputs

    def _tell(self, peer: Peer, kind: MessageKind, content: bytes) -> None:
        self.session(peer).put(bytes([kind]) + content, is_vital=True)

    def _tell_all(self, told: list[tuple[int, TreeUpdate]]) -> None:
        for interface, update in told:
            peer = Peer(Role.ROUTER, self.router.neighbour(interface))
            for data in updates_to_bytes(update, self.settings.message_bytes // 2):
                self._tell(peer, MessageKind.UPDATE, data)

    def _forward(self, packets: Sequence[tuple[Packet, int]]) -> None:
        found = self.router.receive_all(*zip(*packets, strict=True))
        for stop in found.stops:
            if stop.is_error:
                self.last_refusal = stop.reason
        for _, interface, packet in found.out:
            if interface == 0:
                session = self.session(Peer(Role.TAIL, str(packet.addressee)))
            else:
                name = self.router.neighbour(interface)
                known = self.sessions.get(Peer(Role.ROUTER, name))
                if known is None:
                    self._refuse(PacketError(f"a packet for {name}, which was forgotten"))
                    continue
                session = known
            session.put(bytes([MessageKind.PACKET]) + packet.to_bytes())


def plan_of(name: str, states: dict[str, LinkState], settings: Settings) -> Plan:
    """The trees that all routers grow which a router can reach; a link counts if both ends know it."""
    near = {
        state.name: [
            one
            for one in state.neighbours
            if one in states and state.name in states[one].neighbours
        ]
        for state in states.values()
    }
    reached, waiting = {name}, [name]
    while waiting:
        for one in near[waiting.pop()]:
            if one not in reached:
                reached.add(one)
                waiting.append(one)
    names = sorted(reached)
    number = {one: place for place, one in enumerate(names)}
    links = [(number[a], number[b]) for a in names for b in near[a] if a < b]
    salt = ",".join(f"{states[one].sequence}" for one in names)
    topology = from_links(links, names=names)
    return Plan(topology, settings.trees, settings.rule, settings.seed, salt)


def _key(peer: Peer) -> str:
    """The application that a client speaks for: its name is key/number."""
    return peer.name.rpartition("/")[0]
