"""A station: a router with its sessions and its map of the network, without sockets. [Thesis 2.3.4]

    inputs (messages, acknowledgements, peers that appear) ──process──▶ messages in the sessions of peers

Routers flood their link states, so that each has the same map and grows the same trees from it. The version of
the trees comes from the map. A link is on the map from the first time that both ends have met until one of them is
told to forget it; it is back when they meet again. That a neighbour cannot be reached for a while changes nothing: its
session keeps what it misses.

The same inputs in the same batches give the same state. So a station that was killed is its last checkpoint and
the inputs since then: see `station_log`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from matchyard.network.messages import (
    LinkState,
    MessageKind,
    tags_from_bytes,
    update_from_bytes,
    updates_to_bytes,
)
from matchyard.network.packet import Packet, PacketError
from matchyard.network.plain_packets import forward_plain
from matchyard.network.plan import Plan
from matchyard.network.router import Router
from matchyard.network.sessions import Session
from matchyard.network.tables import TreeUpdate
from matchyard.routing import Update, from_links
from matchyard.routing.applications import Tags

_PACKET = bytes([MessageKind.PACKET])


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
        self._plain: list[tuple[bytes, int]] = []  # messages that have packets
        self._updates: dict[tuple[int, int, int], list[TreeUpdate]] = {}  # interface, version, tree
        self._came: list[Tags] = []
        self._gone: list[Tags] = []
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
        """Take inputs: first what changes the map, then tables, then packets, each all together."""
        for one in inputs:
            try:
                self._take(one)
            except PacketError as error:
                self._refuse(error)
        if self._is_map_new:
            self._renew()
        self._change_tables()
        plain, self._plain = self._plain, []
        if plain:
            self._forward_plain(plain)
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
            if one.data[:1] == _PACKET and one.peer.role is Role.ROUTER:
                self._plain.append((one.data, self.router.interfaces[one.peer.name]))
            elif one.data[:1] == _PACKET and one.peer.role is Role.CLIENT:
                self.router.attach(_key(one.peer))
                self._plain.append((one.data, 0))
            else:
                self._read(one.peer, one.data)

    def _meet(self, peer: Peer, incarnation: int) -> None:
        """A peer has connected. A new neighbour, or one that has lost its state, is told everything."""
        is_known = peer in self.sessions
        session = self.session(peer)
        is_same = is_known and session.incarnation == incarnation
        if not is_same:
            session.restart(incarnation)
        near = self.states[self.name].neighbours
        if peer.role is not Role.ROUTER or (is_same and peer.name in near):
            return
        self.router.connect(peer.name)
        self._announce(tuple(sorted({*near, peer.name})))
        for state in self.states.values():
            self._tell(peer, MessageKind.LINK_STATE, state.to_bytes())

    def _read(self, peer: Peer, data: bytes) -> None:
        """Understand a message."""
        try:
            kind = MessageKind(data[0] if data else 0)
        except ValueError as error:
            raise PacketError(f"a message of no kind: {error}") from None
        content = data[1:]
        if peer.role is Role.ROUTER and kind is MessageKind.UPDATE:
            update = update_from_bytes(content)
            place = (self.router.interfaces[peer.name], update.version, update.tree)
            self._updates.setdefault(place, []).append(update)
        elif peer.role is Role.ROUTER and kind is MessageKind.LINK_STATE:
            self._learn(peer, LinkState.from_bytes(content))
        elif peer.role is Role.CLIENT and kind is MessageKind.REGISTER:
            self._came += self.router.note(_key(peer), [tags_from_bytes(content)])
        elif peer.role is Role.CLIENT and kind is MessageKind.WITHDRAW:
            self._gone += self.router.strike(_key(peer), [tags_from_bytes(content)])
        elif peer.role is Role.CLIENT and kind is MessageKind.FORGET:
            self._leave(content.decode(errors="replace"))
        else:
            raise PacketError(f"a message of kind {kind.name} from a {peer.role.name}")

    def _change_tables(self) -> None:
        """Apply what applications and neighbours have changed; what came and went at once is no change."""
        came, gone = Counter(self._came), Counter(self._gone)
        self._came, self._gone = [], []
        self._tell_all(self.router.change((came - gone).elements(), (gone - came).elements()))
        updates, self._updates = self._updates, {}
        for (interface, version, _), some in updates.items():
            if version not in self.router.planes:
                continue  # of a map that is no longer, or not yet: see `_learn`
            for update in merged(some):
                try:
                    self._tell_all(self.router.apply(update, interface))
                except PacketError as error:
                    self._refuse(error)

    # ---------------------------------------------------------------- the map

    def _announce(self, neighbours: tuple[str, ...]) -> None:
        """Tell everybody who the neighbours of this router are."""
        own = self.states[self.name]
        self._flood(LinkState(self.name, own.sequence + 1, neighbours))

    def _flood(self, state: LinkState, but: Peer | None = None) -> None:
        self.states[state.name] = state
        self._is_map_new = True
        for name in self.states[self.name].neighbours:
            peer = Peer(Role.ROUTER, name)
            if peer != but and peer in self.sessions:
                self._tell(peer, MessageKind.LINK_STATE, state.to_bytes())

    def _learn(self, peer: Peer, state: LinkState) -> None:
        """Take a link state that is news, and tell others. A neighbour tells its link states before its updates
        of the version that comes from them. So who does not know the version of an update has a newer map, and
        the neighbour will tell everything on that, too.
        """
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
            message = _PACKET + packet.to_bytes()
            if interface == 0:
                self.session(Peer(Role.TAIL, str(packet.addressee))).put(message)
            else:
                self._send(interface, message)

    def _forward_plain(self, plain: Sequence[tuple[bytes, int]]) -> None:
        messages, interfaces = zip(*plain, strict=True)
        sent = forward_plain(self.router, messages, interfaces, len(_PACKET))
        for interface, message in sent.neighbours:
            self._send(interface, message)
        for key, message in sent.applications:
            self.session(Peer(Role.TAIL, str(key))).put(message)
        for row in sorted(sent.others):
            try:
                packet = Packet.from_bytes(messages[row][len(_PACKET) :])
                self._packets.append((packet, interfaces[row]))
            except PacketError as error:
                self._refuse(error)

    def _send(self, interface: int, message: bytes) -> None:
        """Put a packet into the session of a neighbour, unless that was forgotten."""
        name = self.router.neighbour(interface)
        session = self.sessions.get(Peer(Role.ROUTER, name))
        if session is None:
            self._refuse(PacketError(f"a packet for {name}, which was forgotten"))
        else:
            session.put(message)


def merged(updates: Sequence[TreeUpdate]) -> list[TreeUpdate]:
    """Updates of one neighbour on one tree as few that have the same effect.

    Two are made one unless the second removes what the first has added: that has taken the place of supersets, which
    would stay.
    """
    found = list[TreeUpdate]()
    added = set[Any]()
    for one in updates:
        coming, going = list(one.update.additions), list(one.update.removals)
        is_bloom = bool(coming and not isinstance(coming[0], frozenset)) or bool(
            going and not isinstance(going[0], frozenset)
        )
        if not found or is_bloom or one.is_whole or not added.isdisjoint(going):
            found.append(one)
            added = set() if is_bloom else set(coming)
            continue
        last = found[-1]
        added.update(coming)
        both = Update([*last.update.additions, *coming], [*last.update.removals, *going])
        found[-1] = last._replace(update=both)
    return found


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
