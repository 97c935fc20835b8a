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

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

from matchyard.errors import UsageError
from matchyard.network.fan_out import ONE
from matchyard.network.messages import (
    LinkState,
    MessageKind,
    is_of_filters,
    tags_from_bytes,
    texts_to_bytes,
    update_from_bytes,
    updates_to_bytes,
)
from matchyard.network.packet import Kind, Packet, PacketError
from matchyard.network.plain_packets import Message, forward_plain
from matchyard.network.plan import Plan
from matchyard.network.router import Router
from matchyard.network.sessions import Session
from matchyard.network.tables import TreeUpdate
from matchyard.routing import RULES, Update, from_links
from matchyard.routing.applications import Tags
from matchyard.routing.descriptors import KINDS

_log = logging.getLogger("matchyard")
_PACKET = bytes([MessageKind.PACKET])
_MOST_TREES = 255  # so that a packet can have a locator of its origin for each
_MOST_CLASHES = 3  # link states of a former life of this router, which may be on several ways


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

    def checked(self) -> Settings:
        """The same, if routers can work with it."""
        if not 1 <= self.trees <= _MOST_TREES:
            raise UsageError(f"{self.trees} trees; expected 1 to {_MOST_TREES}")
        if self.rule not in RULES:
            raise UsageError(f"no rule {self.rule!r}; expected one of {', '.join(RULES)}")
        if self.descriptors not in KINDS:
            raise UsageError(f"descriptors {self.descriptors!r}; expected {' or '.join(KINDS)}")
        return self

    def longest(self) -> int:
        """The most bytes of a message between routers: what a client sent, and what a router adds to it."""
        return 2 * self.message_bytes

    def common(self) -> str:
        """What neighbours must agree on."""
        return f"{self.trees} trees by rule {self.rule}, seed {self.seed}, of {self.descriptors}"


class Station:
    """A router and what it needs to work among others.

    >>> oslo = Station("oslo", 7)
    >>> ada = Peer(Role.CLIENT, "ada/1")
    >>> wish = bytes([MessageKind.REGISTER]) + texts_to_bytes(["jazz"])
    >>> oslo.process([Input(ada, InputKind.MEETING), Input(ada, InputKind.MESSAGE, 0, wish)])
    >>> oslo.router.applications
    <1 applications, 1 registrations>
    """

    def __init__(self, name: str, incarnation: int, settings: Settings | None = None) -> None:
        self.name, self.incarnation = name, incarnation
        self.settings = (settings or Settings()).checked()
        self.router = Router(
            name,
            self.settings.descriptors,
            cache=self.settings.cache,
            versions=self.settings.versions,
        )
        self.sessions: dict[Peer, Session] = {}
        self.states = {name: LinkState(name, 1, incarnation, ())}
        self.clashes: dict[int, int] = {}  # link states of this name from others, by incarnation
        self.plans: dict[int, Plan] = {}
        self.refused = 0  # messages that made no sense
        self.last_refusal = ""
        self._is_map_new = True
        self._packets: list[tuple[Packet, int]] = []
        self._plain: list[Message] = []
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
            if peer.role is not Role.ROUTER:
                self._forget_clients()
        return found

    def _forget_clients(self) -> None:
        """Clients and readers make room for others, those first that were heard of longest ago. A reader that
        something waits for, or whose application has registered, stays."""
        idle = [
            peer
            for peer, session in self.sessions.items()
            if peer.role is Role.CLIENT
            or (
                peer.role is Role.TAIL
                and not session.kept
                and peer.name not in self.router.applications
            )
        ]
        for peer in idle[: max(0, len(idle) - self.settings.clients)]:
            del self.sessions[peer]
            if _key(peer) not in self.router.applications:
                self.router.attached.discard(_key(peer))

    def _hear_of(self, peer: Peer) -> Session:
        """The session of a client or reader that is heard of, as the last one to be forgotten."""
        session = self.session(peer)
        if peer.role is not Role.ROUTER:
            self.sessions[peer] = self.sessions.pop(peer)
        return session

    # ---------------------------------------------------------------- inputs

    def process(self, inputs: Sequence[Input]) -> None:
        """Take inputs: first what applications change, then the map, then updates, then packets, each all
        together. Whatever cannot be taken is refused, and counted: a station never stops at an input, since it would
        stop there again when it starts anew."""
        for one in inputs:
            try:
                self._take(one)
            except Exception as error:
                self._refuse(error)
        with self._refusing():
            self._change_applications()
        if self._is_map_new:
            self._renew()
        self._apply_updates()
        plain, self._plain = self._plain, []
        if plain:
            self._forward_plain(plain)
        packets, self._packets = self._packets, []
        if packets:
            self._forward(packets)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Count what goes wrong as a refusal."""
        try:
            yield
        except Exception as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        self.refused += 1
        self.last_refusal = str(error)
        if not isinstance(error, PacketError):
            _log.warning("router %s refuses an input: %r", self.name, error)

    def _take(self, one: Input) -> None:
        if one.kind is InputKind.MEETING:
            self._meet(one.peer, one.number)
            return
        if one.kind is InputKind.FAREWELL:
            self.sessions.pop(one.peer, None)
            return
        session = self._hear_of(one.peer)
        if one.kind is InputKind.ACKNOWLEDGEMENT:
            session.acknowledge(one.number)
        elif session.take(one.number):
            if one.data[:1] == _PACKET and one.peer.role is Role.ROUTER:
                interface = self.router.interfaces[one.peer.name]
                self._plain.append(Message(one.data, interface, None))
            elif one.data[:1] == _PACKET and one.peer.role is Role.CLIENT:
                key = _key(one.peer)
                self.router.attach(key)
                self._plain.append(Message(one.data, 0, key))
            else:
                self._read(one.peer, one.data)

    def _meet(self, peer: Peer, incarnation: int) -> None:
        """A peer has connected. A new neighbour, or one that has lost its state, is told everything."""
        is_known = peer in self.sessions
        session = self._hear_of(peer)
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
            if is_of_filters(content) != self.router.is_bloom:
                raise PacketError("an update of Bloom filters among tags, or the other way round")
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

    def _change_applications(self) -> None:
        """Tell of what applications have changed; what came and went at once is no change."""
        came, gone = Counter(self._came), Counter(self._gone)
        self._came, self._gone = [], []
        self._tell_all(self.router.change((came - gone).elements(), (gone - came).elements()))

    def _apply_updates(self) -> None:
        """Apply what neighbours have told, and tell others."""
        updates, self._updates = self._updates, {}
        for (interface, version, _), some in updates.items():
            if version not in self.router.planes:
                continue  # of a map that is no longer, or not yet: see `_learn`
            for update in merged(some):
                with self._refusing():
                    self._tell_all(self.router.apply(update, interface))

    # ---------------------------------------------------------------- the map

    def _announce(self, neighbours: tuple[str, ...], sequence: int = 0) -> None:
        """Tell everybody who the neighbours of this router are; also those who are no longer."""
        own = self.states[self.name]
        newer = max(own.sequence, sequence) + 1
        state = LinkState(self.name, newer, self.incarnation, neighbours)
        self._flood(state, {*own.neighbours, *neighbours})

    def _flood(self, state: LinkState, to: Iterable[str]) -> None:
        self.states[state.name] = state
        self._is_map_new = True
        for name in sorted(to):
            peer = Peer(Role.ROUTER, name)
            if peer in self.sessions:
                self._tell(peer, MessageKind.LINK_STATE, state.to_bytes())

    def _learn(self, peer: Peer, state: LinkState) -> None:
        """Take a link state that is news, and tell others. A neighbour tells its link states before its updates
        of the version that comes from them. So who does not know the version of an update has a newer map, and
        the neighbour will tell everything on that, too.
        """
        known, own = self.states.get(state.name), self.states[self.name]
        if known is not None and known.age() >= state.age():
            return
        if state.name != self.name:
            self._flood(state, set(own.neighbours) - {peer.name})
            return
        # From before this router lost its state, or of another router of that name, which does not give way.
        self.clashes[state.incarnation] = self.clashes.get(state.incarnation, 0) + 1
        if self.clashes[state.incarnation] > _MOST_CLASHES:
            raise PacketError(
                f"another router has the name {self.name}; expected names that differ"
            )
        self._announce(own.neighbours, state.sequence)

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
        self._put(peer, bytes([kind]) + content, is_vital=True)

    def _put(self, peer: Peer, message: bytes, is_vital: bool = False) -> None:
        """Put a message into the session of a peer, unless the peer would refuse it."""
        if len(message) > self.settings.longest():
            longest = self.settings.longest()
            raise PacketError(f"a message of {len(message)} bytes; expected at most {longest}")
        self.session(peer).put(message, is_vital)

    def _tell_all(self, told: list[tuple[int, TreeUpdate]]) -> None:
        for interface, update in told:
            peer = Peer(Role.ROUTER, self.router.neighbour(interface))
            for data in updates_to_bytes(update, self.settings.message_bytes // 2):
                with self._refusing():
                    self._tell(peer, MessageKind.UPDATE, data)

    def _forward(self, packets: Sequence[tuple[Packet, int]]) -> None:
        found = self.router.receive_all(*zip(*packets, strict=True))
        for stop in found.stops:
            if stop.is_error:
                self.last_refusal = stop.reason
        for _, interface, packet in found.out:
            with self._refusing():
                message = _PACKET + packet.to_bytes()
                if interface == 0:
                    self._put(Peer(Role.TAIL, str(packet.addressee)), message)
                else:
                    self._put(self._neighbour(interface), message)

    def _forward_plain(self, plain: Sequence[Message]) -> None:
        sent = forward_plain(self.router, plain, len(_PACKET))
        for interface, messages in sent.neighbours.items():
            with self._refusing():
                session = self.session(self._neighbour(interface))
                for message in messages:
                    session.put(message)
        for key, message in sent.applications:
            self.session(Peer(Role.TAIL, str(key))).put(message)
        for row in sorted(sent.others):
            with self._refusing():
                data, interface, sender = plain[row]
                packet = Packet.from_bytes(data[len(_PACKET) :])
                if sender is not None:
                    packet = packet._replace(sender=sender)
                self._packets.append((packet, interface))

    def _neighbour(self, interface: int) -> Peer:
        """The neighbour at an interface, unless that was forgotten."""
        peer = Peer(Role.ROUTER, self.router.neighbour(interface))
        if peer not in self.sessions:
            raise PacketError(f"a packet for {peer.name}, which is no neighbour")
        return peer


def warm_up(settings: Settings) -> None:
    """Let two stations that nobody sees do everything once, so that what has to be compiled or loaded is ready."""
    small = settings._replace(trees=1)
    one, other = Station("one", 1, small), Station("other", 2, small)
    key, reader = Peer(Role.CLIENT, "key/1"), texts_to_bytes(["a"])
    sends = Packet(Kind.NOTIFICATION, frozenset("a"), sender="key").to_bytes()
    asks = Packet(Kind.REQUEST, frozenset("a"), sender="key", fan_out=ONE).to_bytes()
    one.process([Input(Peer(Role.ROUTER, "other"), InputKind.MEETING, 2)])
    other.process([Input(Peer(Role.ROUTER, "one"), InputKind.MEETING, 1)])
    contents = [
        bytes([MessageKind.REGISTER]) + reader,
        _PACKET + sends,
        _PACKET + asks,
        bytes([MessageKind.WITHDRAW]) + reader,
    ]
    for number, content in enumerate(contents):
        at = other if number in (0, 3) else one
        at.process(
            [Input(key, InputKind.MESSAGE, number - 1 if at is one else number // 3, content)]
        )
        for _ in range(3):
            _exchange(one, other)
            _exchange(other, one)


def _exchange(here: Station, there: Station) -> None:
    """Bring what one station has for another to it."""
    peer, session = Peer(Role.ROUTER, there.name), here.session(Peer(Role.ROUTER, there.name))
    came_from = Peer(Role.ROUTER, here.name)
    there.process(
        [
            Input(came_from, InputKind.MESSAGE, session.first + place, message)
            for place, message in enumerate(session.kept)
        ]
    )
    here.process([Input(peer, InputKind.ACKNOWLEDGEMENT, session.next)])


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
    # Of all states, also of routers that cannot be reached: a map that is as it was before has a new version.
    salt = ",".join(f"{one} {states[one].age()}" for one in sorted(states))
    topology = from_links(links, names=names)
    return Plan(topology, settings.trees, settings.rule, settings.seed, salt)


def _key(peer: Peer) -> str:
    """The application that a client speaks for, whose name is key/number, or that a reader reads for."""
    return peer.name if peer.role is Role.TAIL else peer.name.rpartition("/")[0]
