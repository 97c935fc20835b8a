"""Inputs that a station must survive: it refuses them, goes on, and starts again with them in its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app
from matchyard.errors import StorageError, UsageError
from matchyard.network.client import Client
from matchyard.network.frames import LinkError, data_frame, read_data
from matchyard.network.hierarchy import Hierarchy
from matchyard.network.messages import LinkState, MessageKind, texts_to_bytes, update_to_bytes
from matchyard.network.packet import Kind, Locator, Packet
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.plain_packets import Message, forward_plain
from matchyard.network.settings import Settings
from matchyard.network.station import Station
from matchyard.network.station_log import StationLog
from matchyard.network.tables import TreeUpdate
from matchyard.network.warm_up import warm_up
from matchyard.routing import Rib, Update, Vocabulary, from_links
from tests.network.test_station import ADA, SETTINGS, TAIL, line, news, wish

BOB = Peer(Role.CLIENT, "bob/1")

PAIR = from_links([(0, 1)], names=["oslo", "rome"])


def in_hierarchy(tags: Any) -> None:
    both = from_links([(0, 1)], names=["north", "south"])
    Hierarchy(both, {"north": PAIR, "south": PAIR}).register(tags, at="north/oslo", key="ada")


def by_client(tags: Any, withdraws: bool = False) -> None:
    async def main() -> None:
        async with asyncio.timeout(1):  # nothing is sent: nobody listens there
            client = Client("127.0.0.1:1", "ada")
            await (client.withdraw if withdraws else client.register)({"jazz"}, tags)

    asyncio.run(main())


REGISTRATIONS: dict[str, Callable[[Any], object]] = {
    "network": lambda tags: my.Network(PAIR).register(tags, at="oslo", key="ada"),
    "many": lambda tags: my.Network(PAIR).register_many([{"jazz"}, tags], ["oslo"] * 2, ["ada"] * 2),
    "withdrawal": lambda tags: my.Network(PAIR).withdraw(tags, at="oslo", key="ada"),
    "hierarchy": in_hierarchy,
    "client": by_client,
    "client's withdrawal": lambda tags: by_client(tags, withdraws=True),
}  # fmt: skip


@pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_what_reads_like_a_predicate_is_no_registration(register: Callable[[Any], object]) -> None:
    for word in ("<", "<=", ">", ">=", "=", "!=", "and", "or", "not", "in"):
        with pytest.raises(UsageError, match=f"'price {word} 5' reads like a predicate.*'{word}'"):
            register(f"price {word} 5")
    with pytest.raises(UsageError, match="'price': 5} has names with values"):
        register({"price": 5})


def test_tags_may_be_words_of_predicates() -> None:
    net = my.Network(PAIR)
    net.register({"rock", "and", "roll"}, at="oslo", key="ada")
    net.register("android price<5", at="oslo", key="bob")  # no word is one of a predicate
    assert net.notify("rock and roll in oslo", at="rome").keys == ["ada"]
    assert net.notify("price<5 android", at="rome").keys == ["bob"]
    with pytest.raises(UsageError, match="has names with values"):
        net.notify({"price": 5}, at="rome")


def test_the_command_refuses_what_reads_like_a_predicate() -> None:
    given = ["register", "price < 5", "--key", "ada", "--router", "127.0.0.1:1"]
    assert "reads like a predicate" in str(CliRunner().invoke(app, given).exception)


def message(peer: Peer, number: int, data: bytes) -> Input:
    return Input(peer, InputKind.MESSAGE, number, data)


def test_bloom_routers_deliver_what_applications_asked_for() -> None:
    a, b = (Station(name, 1, Settings(trees=2, descriptors="bloom")) for name in "ab")
    wires = line(a, b)
    wishes = [message(ADA, number, wish(f"tag{number}")) for number in range(300)]
    b.process([Input(ADA, InputKind.MEETING), *wishes])
    wires.settle()
    some = [message(BOB, number, news(f"tag{number}", "more")) for number in range(300)]
    a.process([Input(BOB, InputKind.MEETING), *some])
    wires.settle()
    assert len(b.sessions[TAIL].kept) == 300


def test_a_change_in_one_batch_with_a_new_map_counts_once() -> None:
    a, b, c = (Station(name, 1, SETTINGS) for name in "abc")
    wires = line(a, b)
    b.process([Input(one, InputKind.MEETING) for one in (ADA, BOB)])
    b.process([message(ADA, 0, wish("jazz")), message(BOB, 0, wish("jazz"))])
    wires.settle()
    wires.ends["c"] = c
    gone = bytes([MessageKind.WITHDRAW]) + texts_to_bytes(["jazz"])
    b.process([Input(Peer(Role.ROUTER, "c"), InputKind.MEETING, 1), message(ADA, 1, gone)])
    c.process([Input(Peer(Role.ROUTER, "b"), InputKind.MEETING, 1)])
    wires.settle()
    a.process([Input(BOB, InputKind.MEETING), message(BOB, 0, news("jazz"))])
    wires.settle()
    assert len(b.sessions[Peer(Role.TAIL, "bob")].kept) == 1
    b.process([message(BOB, 1, gone)])
    wires.settle()
    assert len(a.router.plane.rib) == len(c.router.plane.rib) == 0


def poison(version: int) -> list[bytes]:
    filters = Rib([[1, 2]], "bloom", Vocabulary("bloom")).apply(Update(["x"]), 0, 1)[2]
    update = bytes([MessageKind.UPDATE])
    return [
        update + update_to_bytes(TreeUpdate(version, 99, Update(["x"]), is_whole=True)),
        update + update_to_bytes(TreeUpdate(version, 0, filters)),
        update + update_to_bytes(TreeUpdate(version, 0, Update(["x"]))),
        bytes([MessageKind.LINK_STATE]) + b"\xff" * 16 + texts_to_bytes(["b"]),
        bytes([MessageKind.LINK_STATE]) + LinkState("b", (1 << 62) - 1, 9, ("a",)).to_bytes(),
        bytes([MessageKind.LINK_STATE]) + LinkState("", 5, 9, ("", "a", "b")).to_bytes(),
        bytes([MessageKind.PACKET])
        + Packet(Kind.REPLY, None, (Locator(version, 0, (1 << 64) - 1),)).to_bytes(),
    ]


def test_no_input_stops_a_station_or_keeps_it_from_starting_again(tmp_path: Path) -> None:
    a, log = Station("a", 1, SETTINGS), StationLog(tmp_path, "b", SETTINGS)
    wires = line(a, log)
    peer = Peer(Role.ROUTER, "a")
    first = log.station.sessions[peer].expected
    bad = poison(log.station.router.plane.part.version)
    log.process([message(peer, first + number, data) for number, data in enumerate(bad)])
    log.process([Input(ADA, InputKind.MEETING), message(ADA, 0, wish("jazz"))])
    assert log.station.refused >= 3
    log.close()
    again = StationLog(tmp_path, "b", SETTINGS)
    assert len(again.station.router.applications) == 1
    assert again.station.refused == log.station.refused
    again.close()
    assert wires.ends


def test_settings_that_routers_cannot_work_with_are_refused() -> None:
    for settings in (Settings(trees=256), Settings(rule="X"), Settings(descriptors="words")):
        with pytest.raises(UsageError, match="expected"):
            Station("a", 1, settings)


def test_a_message_that_a_neighbour_would_refuse_does_not_get_on_the_link() -> None:
    small = Settings(trees=2, message_bytes=1000)
    a, b = Station("a", 1, small), Station("b", 1, small)
    wires = line(a, b)
    words = [f"{number:0100}" for number in range(9)]
    b.process([Input(ADA, InputKind.MEETING), message(ADA, 0, wish(*words))])
    b.process([message(ADA, 1, wish(*(word * 30 for word in words)))])  # as no client may send it
    assert b.refused > 0
    b.process([message(ADA, 2, wish("jazz"))])
    assert all(len(one) <= small.longest() for one in b.sessions[Peer(Role.ROUTER, "a")].kept)
    wires.settle()
    assert frozenset({"jazz"}) in set(a.router.plane.rib.wanted(0, 1))


@pytest.mark.parametrize("descriptors", ["tags", "bloom"])
def test_a_warm_up_does_everything_once(descriptors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Station]()
    began = Station.__init__

    def begin(self: Station, *given: object) -> None:
        began(self, *given)  # type: ignore[arg-type]
        seen.append(self)

    monkeypatch.setattr(Station, "__init__", begin)
    warm_up(Settings(descriptors=descriptors))
    one, other = seen
    assert (one.last_refusal, other.last_refusal) == ("", "")
    assert len(other.sessions[Peer(Role.TAIL, "key")].kept) == 2
    assert len(one.router.plane.rib) == len(other.router.applications) == 0


def test_sequence_numbers_are_bounded() -> None:
    with pytest.raises(LinkError, match="2\\^62"):
        read_data(data_frame((1 << 64) - 1, [b"x", b"y"])[5:])


def plain(tags: list[bytes], sender: bytes = b"\x00\x00\x03ada") -> bytes:
    """A notification on the wire that need not be well-formed."""
    whole = Packet(Kind.NOTIFICATION, frozenset(), sender="ada").to_bytes()
    lengths = b"".join(len(tag).to_bytes(2, "big") for tag in tags)
    text = len(tags).to_bytes(2, "big") + lengths + b"".join(tags)
    return b"\x01" + whole[:24] + text + sender + bytes(4)


@pytest.mark.parametrize(
    "data",
    [
        plain([b"jazz", b"jazz"]),
        plain([b"jazz"], b"\x07\x00\x03ada"),
        plain([b"jazz"], b"\x00\x00\x03eve"),
        plain([b"%05d" % number for number in range(5000)]),
        plain([b"jazz", b"\xff\xff"]),
        plain([b"live", b"jazz"]),
        plain([b"jazz"])[:-1],
    ],
)
def test_the_fast_way_leaves_strange_packets_to_the_careful_one(data: bytes) -> None:
    station = Station("a", 1, SETTINGS)
    assert forward_plain(station.router, [Message(data, 0, "ada")], 1).others == [0]
    good = plain([b"jazz", b"live"])
    assert forward_plain(station.router, [Message(good, 0, "ada")], 1).others == []


def test_a_sender_is_who_the_client_is() -> None:
    station = Station("a", 1, SETTINGS)
    station.process([Input(ADA, InputKind.MEETING), message(ADA, 0, wish("jazz"))])
    forged = Packet(Kind.NOTIFICATION, frozenset({"jazz"}), sender="king").to_bytes()
    station.process([message(ADA, 1, bytes([MessageKind.PACKET]) + forged)])
    assert Packet.from_bytes(station.sessions[TAIL].kept[0][1:]).sender == "ada"
    assert station.router.attached == {"ada"}


def test_clients_that_were_heard_of_longest_ago_are_forgotten_first() -> None:
    station = Station("a", 1, Settings(trees=1, clients=3))
    station.process([Input(ADA, InputKind.MEETING)])
    for number in range(5):
        peer = Peer(Role.CLIENT, f"k{number}/1")
        station.process([Input(peer, InputKind.MEETING), message(ADA, number, news("x"))])
    assert ADA in station.sessions
    assert sum(peer.role is Role.CLIENT for peer in station.sessions) == 3


def test_a_router_gives_way_to_its_name_a_few_times_and_then_says_so() -> None:
    a, b = Station("a", 1, SETTINGS), Station("b", 2, SETTINGS)
    line(a, b)
    peer = Peer(Role.ROUTER, "b")
    for number in range(6):
        other = LinkState("a", a.states["a"].sequence + 1, 99, ("z",))
        data = bytes([MessageKind.LINK_STATE]) + other.to_bytes()
        a.process([message(peer, a.sessions[peer].expected, data)])
        assert a.states["a"].incarnation == 1
        assert a.states["a"].neighbours == ("b",)
        assert a.refused == max(0, number - 2)
    assert "another router has the name a" in a.last_refusal


def test_a_state_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be a folder"):
        StationLog(tmp_path / "file", "b", SETTINGS)
