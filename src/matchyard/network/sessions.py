"""One end of a reliable link: messages with sequence numbers, kept until the other end has them.

A session outlives connections, and with what is on disk, processes. After a reconnect each end says which
number it expects next; the other one sends again from there, and what comes twice is dropped.
"""

from __future__ import annotations

from collections import deque

from matchyard.network.packet import PacketError


class Session:
    """What is on its way to a peer, and what is expected from it. `room` is in bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.incarnation = 0  # of the peer: it changes when the peer has lost its state
        self.expected = 0  # the next sequence number from the peer
        self.first = 0  # the sequence number of the first message that is kept
        self.kept: deque[bytes] = deque()  # messages that the peer has not acknowledged
        self.n_bytes = 0
        self.n_bytes_gone = 0  # of messages that the peer has acknowledged
        self.dropped = 0  # messages for which there was no room

    @property
    def next(self) -> int:
        """The sequence number that the next message gets."""
        return self.first + len(self.kept)

    def put(self, message: bytes, is_vital: bool = False) -> bool:
        """Keep a message for the peer; without room, only what is vital. Is it kept?"""
        if not is_vital and self.n_bytes + len(message) > self.room:
            self.dropped += 1
            return False
        self.kept.append(message)
        self.n_bytes += len(message)
        return True

    def acknowledge(self, expected: int) -> None:
        """The peer has everything before this number."""
        if expected > self.next:
            raise PacketError(
                f"an acknowledgement of message {expected - 1}; {self.next} messages were sent"
            )
        while self.first < expected:
            length = len(self.kept.popleft())
            self.n_bytes -= length
            self.n_bytes_gone += length
            self.first += 1

    def take(self, sequence: int) -> bool:
        """Is a message from the peer new? A gap is an error."""
        if sequence > self.expected:
            raise PacketError(f"message {sequence}; expected {self.expected}")
        if sequence < self.expected:
            return False
        self.expected += 1
        return True

    def restart(self, incarnation: int) -> None:
        """The peer has lost its state: numbers begin anew, and what it has not acknowledged goes first."""
        self.incarnation, self.expected, self.first = incarnation, 0, 0
