"""The peers of a router, and the inputs that come from them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Role(IntEnum):
    """The role of the other end of a session."""

    ROUTER = 1  # a neighbour; its name is that of the router
    CLIENT = 2  # registers and sends; its name is key/number
    TAIL = 3  # reads the packets of an application; its name is the key


class Peer(NamedTuple):
    """The other end of a session."""

    role: Role
    name: str


class InputKind(IntEnum):
    """The kind of an input."""

    MESSAGE = 1
    ACKNOWLEDGEMENT = 2  # number: the next message that the peer expects
    MEETING = 3  # the peer has connected; number: its incarnation
    FAREWELL = 4  # the peer will not connect again


class Input(NamedTuple):
    """An input from a peer."""

    peer: Peer
    kind: InputKind
    number: int = 0
    data: bytes = b""
