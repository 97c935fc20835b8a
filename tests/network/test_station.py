"""Stations without sockets: sessions, maps, logs, and what survives a kill."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from matchyard.errors import StorageError
from matchyard.network.messages import LinkState, MessageKind, texts_to_bytes, update_to_bytes
from matchyard.network.packet import Kind, Packet, PacketError
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.sessions import Session
from matchyard.network.settings import Settings
from matchyard.network.station import Station
from matchyard.network.station_log import StationLog
from matchyard.network.tables import TreeUpdate, bytes_on_wire, merged
from matchyard.routing import Rib, Update

ADA, TAIL = Peer(Role.CLIENT, "ada/1"), Peer(Role.TAIL, "ada")
SETTINGS = Settings(trees=2)


def wish(*tags: str) -> bytes:
    return bytes([MessageKind.REGISTER]) + texts_to_bytes(sorted(tags))


def news(*tags: str, payload: bytes = b"") -> bytes:
    packet = Packet(Kind.NOTIFICATION, frozenset(tags), payload=payload)
    return bytes([MessageKind.PACKET]) + packet.to_bytes()


class Wires:
    """Stations that are connected: what is in a session goes to the other end."""

    def __init__(self, *stations: Station | StationLog) -> None:
        self.ends = {_station(one).name: one for one in stations}

    def meet(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            number = _station(self.ends[there]).incarnation
            self.ends[here].process([Input(Peer(Role.ROUTER, there), InputKind.MEETING, number)])

    def settle(self) -> None:
        """Bring everything to where it belongs until nothing is left; acknowledge all of it."""
        is_moving = True
        while is_moving:
            is_moving = False
            for name, end in self.ends.items():
                for peer, session in list(_station(end).sessions.items()):
                    if peer.role is Role.ROUTER and session.kept:
                        is_moving = True
                        self.carry(name, peer.name)

    def carry(self, here: str, there: str, is_acknowledged: bool = True) -> None:
        session = _station(self.ends[here]).sessions[Peer(Role.ROUTER, there)]
        came_from = Peer(Role.ROUTER, here)
        self.ends[there].process(
            [
                Input(came_from, InputKind.MESSAGE, session.first + place, message)
                for place, message in enumerate(session.kept)
            ]
        )
        if is_acknowledged:
            expected = _station(self.ends[there]).sessions[came_from].expected
            peer = Peer(Role.ROUTER, there)
            self.ends[here].process([Input(peer, InputKind.ACKNOWLEDGEMENT, expected)])


def _station(end: Station | StationLog) -> Station:
    return end.station if isinstance(end, StationLog) else end


def line(*stations: Station | StationLog) -> Wires:
    wires = Wires(*stations)
    names = list(wires.ends)
    for one, other in pairwise(names):
        wires.meet(one, other)
    wires.settle()
    return wires


def numbers(station: Station) -> dict[Peer, tuple[object, ...]]:
    return {
        peer: (one.incarnation, one.expected, one.first, one.kept, one.n_bytes, one.dropped)
        for peer, one in station.sessions.items()
    }


def test_stations_that_meet_have_one_map_and_deliver() -> None:
    a, b, c = (Station(name, 1, SETTINGS) for name in "abc")
    wires = line(a, b, c)
    assert a.router.plane.part.version == b.router.plane.part.version == c.router.plane.part.version
    c.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    wires.settle()
    bob = Peer(Role.CLIENT, "bob/1")
    a.process(
        [Input(bob, InputKind.MEETING), Input(bob, InputKind.MESSAGE, 0, news("jazz", "live"))]
    )
    wires.settle()
    [message] = c.sessions[TAIL].kept
    packet = Packet.from_bytes(message[1:])
    assert (packet.tags, packet.hops) == ({"jazz", "live"}, 2)
    assert b.router.counts.sent == 1


def test_a_message_that_comes_twice_counts_once() -> None:
    a, b = Station("a", 1, SETTINGS), Station("b", 1, SETTINGS)
    wires = line(a, b)
    b.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    wires.settle()
    a.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, news("jazz"))])
    wires.carry("a", "b", is_acknowledged=False)
    wires.carry("a", "b")
    assert len(b.sessions[TAIL].kept) == 1
    a.process([Input(ADA, InputKind.MESSAGE, 0, news("jazz"))])
    assert not a.sessions[Peer(Role.ROUTER, "b")].kept


def test_a_killed_station_comes_back_as_it_was(tmp_path: Path) -> None:
    a = Station("a", 1, SETTINGS)
    log = StationLog(tmp_path, "b", SETTINGS)
    wires = line(a, log)
    log.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    wires.settle()
    log.process([Input(ADA, InputKind.MESSAGE, 1, news("jazz", payload=b"one"))])
    before = log.station
    for is_checkpoint in (False, True, False):
        if is_checkpoint:
            log.checkpoint()
        log.close()  # a kill leaves the files as they are
        log = StationLog(tmp_path, "b", SETTINGS)
        after = log.station
        assert after.incarnation == before.incarnation
        assert after.states == before.states
        assert list(after.router.applications) == list(before.router.applications)
        assert numbers(after) == numbers(before)
        assert vars(after.router.counts) == vars(before.router.counts)
        assert sorted(map(sorted, after.router.plane.rib.wanted(0, 0))) == [["jazz"]]
    wires.ends["b"] = log
    a.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, news("jazz"))])
    wires.settle()
    assert len(log.station.sessions[TAIL].kept) == 2
    log.close()


def test_a_last_record_that_is_torn_is_dropped_and_other_damage_is_refused(tmp_path: Path) -> None:
    log = StationLog(tmp_path, "b", SETTINGS)
    log.process([Input(ADA, InputKind.MEETING)])
    log.process([Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    log.close()
    [file] = tmp_path.glob("log-*")
    whole = file.read_bytes()
    for end in (len(whole) - 1, len(whole) - 20, len(whole) // 2 + 3):
        file.write_bytes(whole[:end])
        again = StationLog(tmp_path, "b", SETTINGS)
        assert len(again.station.router.applications) == 0
        again.close()
    for place in (1, 5, 9, 14):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StorageError, match="damaged"):
            StationLog(tmp_path, "b", SETTINGS)


def test_a_state_of_another_router_is_refused(tmp_path: Path) -> None:
    log = StationLog(tmp_path, "b", SETTINGS)
    with pytest.raises(StorageError, match="used by a running router"):
        StationLog(tmp_path, "b", SETTINGS)
    log.close()
    with pytest.raises(StorageError, match="state of router b"):
        StationLog(tmp_path, "c", SETTINGS)
    with pytest.raises(StorageError, match="3 trees"):
        StationLog(tmp_path, "b", Settings(trees=3))


def test_a_router_that_lost_its_state_gets_everything_again() -> None:
    a, b, c = (Station(name, 1, SETTINGS) for name in "abc")
    wires = line(a, b, c)
    c.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    wires.settle()
    b = wires.ends["b"] = Station("b", 2, SETTINGS)
    wires.meet("a", "b")
    wires.meet("b", "c")
    wires.settle()
    a.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, news("jazz"))])
    wires.settle()
    assert len(c.sessions[TAIL].kept) == 1


def test_a_neighbour_that_is_forgotten_leaves_the_map() -> None:
    a, b, c = (Station(name, 1, SETTINGS) for name in "abc")
    wires = line(a, b, c)
    wires.meet("c", "a")  # a ring
    wires.settle()
    forget = bytes([MessageKind.FORGET]) + b"b"
    a.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, forget)])
    wires.settle()
    assert a.plans[a.router.plane.part.version].topology.n_links == 2
    assert a.router.plane.part.version == b.router.plane.part.version


def test_garbage_is_refused_and_harms_nobody() -> None:
    a, b = Station("a", 1, SETTINGS), Station("b", 1, SETTINGS)
    line(a, b)
    peer, first = Peer(Role.ROUTER, "b"), a.sessions[Peer(Role.ROUTER, "b")].expected
    version = a.router.plane.part.version
    bad = [
        b"",
        b"\x00",
        b"\xff rest",
        bytes([MessageKind.PACKET]) + b"\x01\x01",
        bytes([MessageKind.UPDATE]) + b"short",
        bytes([MessageKind.UPDATE]) + update_to_bytes(TreeUpdate(version, 99, Update(["x"]))),
        bytes([MessageKind.LINK_STATE]) + b"\x00" * 8,
        bytes([MessageKind.REGISTER]) + texts_to_bytes(["x"]),
        bytes([MessageKind.PACKET])
        + Packet(Kind.NOTIFICATION, frozenset("x"), version=version, tree=9).to_bytes(),
        bytes([MessageKind.PACKET])
        + Packet(Kind.NOTIFICATION, frozenset("x"), version=1).to_bytes(),
    ]
    a.process([Input(peer, InputKind.MESSAGE, first + n, data) for n, data in enumerate(bad)])
    assert a.refused + a.router.counts.refused == len(bad)
    a.process([Input(peer, InputKind.ACKNOWLEDGEMENT, 1 << 40)])
    a.process([Input(peer, InputKind.MESSAGE, first + 99, b"")])
    assert a.refused + a.router.counts.refused == len(bad) + 2
    assert len(a.router.plane.rib) == 0


def test_a_session_that_is_full_drops_and_counts() -> None:
    session = Session(room=10)
    assert [session.put(b"12345") for _ in range(3)] == [True, True, False]
    assert session.put(b"vital", is_vital=True)
    assert (session.dropped, session.next) == (1, 3)
    session.acknowledge(2)
    assert session.put(b"12345")
    with pytest.raises(PacketError, match="4 messages were sent"):
        session.acknowledge(5)


def test_updates_that_are_merged_have_the_same_effect() -> None:
    """What an update added has hidden supersets; removing it again must not bring them back."""
    jazz, live = frozenset({"jazz"}), frozenset({"jazz", "live"})
    told = [Update([live]), Update([jazz]), Update([], [jazz]), Update([frozenset({"rock"})])]
    updates = [TreeUpdate(1, 0, one) for one in told]
    apart, together = Rib([[1, 2]]), Rib([[1, 2]])
    for one in updates:
        apart.apply(one.update, 0, 1)
    few = merged(updates)
    for one in few:
        together.apply(one.update, 0, 1)
    assert len(few) == 2
    assert set(apart.wanted(0, 1)) == set(together.wanted(0, 1)) == {frozenset({"rock"})}


def test_an_update_takes_as_many_bytes_as_are_counted_for_it() -> None:
    for kind in ("tags", "bloom"):
        rib = Rib([[1, 2]], kind)
        told = rib.apply(Update(["jazz live", "blues"]), 0, 1)[2]
        update = TreeUpdate(1, 0, told)
        message = bytes([MessageKind.UPDATE]) + update_to_bytes(update)
        assert bytes_on_wire(update) == len(message)


def test_a_link_state_is_written_and_read_again() -> None:
    state = LinkState("a", 7, 1, ("b", "ü"))
    assert LinkState.from_bytes(state.to_bytes()) == state
    for end in range(len(state.to_bytes())):
        with pytest.raises(PacketError):
            LinkState.from_bytes(state.to_bytes()[:end])
