"""One end of a reliable link: messages with sequence numbers, kept until the other end has them.

A session outlives connections and, with its state on disk, processes. After a reconnect, each end says which
number it expects next, and the other end sends again from there. Duplicates are dropped.
"""

from __future__ import annotations

from collections import deque

from matchyard.network.packet import PacketError


class Session:
    """The messages to a peer, and the next number expected from it. `room` is in bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.incarnation = 0  # of the peer; it changes when the peer loses its state
        self.expected = 0  # the next sequence number from the peer
        self.first = 0  # the sequence number of the first kept message
        self.kept: deque[bytes] = deque()  # messages that the peer has not acknowledged
        self.n_bytes = 0
        self.n_bytes_gone = 0  # of acknowledged messages
        self.dropped = 0  # the number of messages without room

    @property
    def next(self) -> int:
        """The sequence number of the next message."""
        return self.first + len(self.kept)

    def put(self, message: bytes, is_vital: bool = False) -> bool:
        """Keep a message for the peer; True if kept. Without room, only a vital message is kept."""
        if not is_vital and self.n_bytes + len(message) > self.room:
            self.dropped += 1
            return False
        self.kept.append(message)
        self.n_bytes += len(message)
        return True

    def acknowledge(self, expected: int) -> None:
        """Drop all messages before the number that the peer expects next."""
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
        """True if a message from the peer is new; a gap is an error."""
        if sequence > self.expected:
            raise PacketError(f"message {sequence}; expected {self.expected}")
        if sequence < self.expected:
            return False
        self.expected += 1
        return True

    def restart(self, incarnation: int) -> None:
        """Restart the numbers for a peer that has lost its state; the kept messages come first."""
        self.incarnation, self.expected, self.first = incarnation, 0, 0
