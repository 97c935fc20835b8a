"""A station: a router with its sessions and its map of the network, without sockets. [Thesis 2.3.4]

    inputs (messages, acknowledgements, meetings) ──process──▶ messages in the sessions of peers

Routers flood their link states. Each router therefore has the same map, and grows the same trees from it. The version
of the trees depends on the map. A link is on the map from the first meeting of its ends until one of them is told to
forget the other; a new meeting puts it back. A neighbour that is unreachable for a while stays on the map: its session
keeps the messages for it.

The same inputs in the same batches give the same state. So the last checkpoint and the inputs since then restore a
killed station: see `station_log`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from matchyard.network.messages import (
    LinkState,
    MessageKind,
    is_of_filters,
    tags_from_bytes,
    update_from_bytes,
    updates_to_bytes,
)
from matchyard.network.packet import Packet, PacketError
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.plain_packets import Message, forward_plain
from matchyard.network.plan import Plan
from matchyard.network.router import Router
from matchyard.network.sessions import Session
from matchyard.network.settings import Settings
from matchyard.network.tables import TreeUpdate, merged
from matchyard.routing import from_links
from matchyard.routing.applications import Tags

_log = logging.getLogger("matchyard")
_PACKET = bytes([MessageKind.PACKET])
_MOST_CLASHES = 3  # old link states of this router, before it lost its state, may arrive so often


class Station:
    """A router with sessions to its peers and a map of the network.

    >>> from matchyard.network.messages import texts_to_bytes
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
        self.clashes: dict[
            int, int
        ] = {}  # counts of foreign link states with this name, by incarnation
        self.plans: dict[int, Plan] = {}
        self.refused = 0  # inputs that were refused
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
        """The session with a peer; a new one if there is none."""
        session = self.sessions.get(peer)
        if session is None:
            session = self.sessions[peer] = Session(self.settings.session_bytes)
            if peer.role is not Role.ROUTER:
                self._forget_clients()
        return session

    def _forget_clients(self) -> None:
        """Drop the sessions of clients and readers beyond the limit, the least recently active first.
        A reader with waiting messages, or whose application has registered, stays."""
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
        """The session of a peer, moved to the end of the order in which sessions are forgotten."""
        session = self.session(peer)
        if peer.role is not Role.ROUTER:
            self.sessions[peer] = self.sessions.pop(peer)
        return session

    # ---------------------------------------------------------------- inputs

    def process(self, inputs: Sequence[Input]) -> None:
        """Process a batch: first changes of applications, then the map, then updates, then packets.
        An input that fails is refused and counted. It never stops the station, because a replay would stop at
        the same input again."""
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
        """Count an exception as a refusal."""
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
        """Take a connection of a peer; send all link states to a new neighbour or one that has lost its state."""
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
        """Parse a message and store its content for this batch."""
        try:
            kind = MessageKind(data[0] if data else 0)
        except ValueError as error:
            raise PacketError(f"a message of unknown kind: {error}") from None
        content = data[1:]
        if peer.role is Role.ROUTER and kind is MessageKind.UPDATE:
            update = update_from_bytes(content)
            if is_of_filters(content) != self.router.is_bloom:
                raise PacketError(
                    "an update of Bloom filters at a router of tags, or of tags at a router of filters"
                )
            target = (self.router.interfaces[peer.name], update.version, update.tree)
            self._updates.setdefault(target, []).append(update)
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
        """Send updates about changes of applications; an addition and its removal in one batch cancel."""
        came, gone = Counter(self._came), Counter(self._gone)
        self._came, self._gone = [], []
        self._tell_all(self.router.change((came - gone).elements(), (gone - came).elements()))

    def _apply_updates(self) -> None:
        """Apply the updates of neighbours, and send the resulting updates to others."""
        updates, self._updates = self._updates, {}
        for (interface, version, _), some in updates.items():
            if version not in self.router.planes:
                continue  # of an older or a future map: see `_learn`
            for update in merged(some):
                with self._refusing():
                    self._tell_all(self.router.apply(update, interface))

    # ---------------------------------------------------------------- the map

    def _announce(self, neighbours: tuple[str, ...], sequence: int = 0) -> None:
        """Flood a new link state of this router, also to former neighbours."""
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
        """Store a link state if it is new, and flood it.

        A neighbour sends its link states before its updates of the version that they determine. So a router that
        does not know the version of an update has a newer map, and the neighbour will send all updates of that, too.
        """
        known, own = self.states.get(state.name), self.states[self.name]
        if known is not None and known.age() >= state.age():
            return
        if state.name != self.name:
            self._flood(state, set(own.neighbours) - {peer.name})
            return
        # The state is from before this router lost its state, or from another router of the same name. Only
        # the latter keeps announcing itself.
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
        """Grow and install the trees of the present map."""
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
        """Put a message into the session of a peer; raise PacketError if it is too long for the peer."""
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
        received = self.router.receive_all(*zip(*packets, strict=True))
        for stop in received.stops:
            if stop.is_error:
                self.last_refusal = stop.reason
        for _, interface, packet in received.out:
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
        """The neighbour at an interface; a forgotten one is an error."""
        peer = Peer(Role.ROUTER, self.router.neighbour(interface))
        if peer not in self.sessions:
            raise PacketError(f"a packet for {peer.name}, which is no neighbour")
        return peer


def plan_of(name: str, states: dict[str, LinkState], settings: Settings) -> Plan:
    """The plan of all routers that a router can reach; a link counts if both ends report it."""
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
    number = {one: position for position, one in enumerate(names)}
    links = [(number[a], number[b]) for a in names for b in near[a] if a < b]
    # The salt covers unreachable routers, too: a map that returns to a former state gets a new version.
    salt = ",".join(f"{one} {states[one].age()}" for one in sorted(states))
    topology = from_links(links, names=names)
    return Plan(topology, settings.trees, settings.rule, settings.seed, salt)


def _key(peer: Peer) -> str:
    """The key of the application of a client (its name is key/number) or of a reader."""
    return peer.name if peer.role is Role.TAIL else peer.name.rpartition("/")[0]
