"""The warm-up of a router: compile and load everything before peers wait for it."""

from __future__ import annotations

from matchyard.network.fan_out import ONE
from matchyard.network.messages import MessageKind, texts_to_bytes
from matchyard.network.packet import Kind, Packet
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.settings import Settings
from matchyard.network.station import Station

_PACKET = bytes([MessageKind.PACKET])


def warm_up(settings: Settings) -> None:
    """Run all operations once on two hidden stations, so that kernels are compiled and modules loaded."""
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
    """Deliver the waiting messages of one station to another."""
    peer, session = Peer(Role.ROUTER, there.name), here.session(Peer(Role.ROUTER, there.name))
    came_from = Peer(Role.ROUTER, here.name)
    there.process(
        [
            Input(came_from, InputKind.MESSAGE, session.first + position, message)
            for position, message in enumerate(session.kept)
        ]
    )
    here.process([Input(peer, InputKind.ACKNOWLEDGEMENT, session.next)])
