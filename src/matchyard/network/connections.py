"""One connection between a router and a peer: what is sent on it, and how far the peer is behind."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import islice

from matchyard.network.frames import FrameKind, LinkError, ack_frame, data_frame, frame
from matchyard.network.sessions import Session
from matchyard.network.station import Peer

FRAME_BYTES = 256 << 10  # of messages that go together
SECONDS_OF_SILENCE = 20.0  # after which a neighbour is taken for gone
_MOST_ON_THE_WAY = 4 << 20  # bytes to a peer that it has not acknowledged
_PATIENCE = 2.0  # seconds that a peer may read nothing and hold others up


class Connection:
    """One connection to a peer, while it lasts."""

    def __init__(
        self,
        peer: Peer,
        writer: asyncio.StreamWriter,
        session: Session,
        sent: int,
        is_caller: bool,
    ) -> None:
        """`is_caller` says whether this end has connected to the other."""
        self.peer, self.writer, self.session = peer, writer, session
        self.sent = sent  # the sequence number of the message that is sent next
        kept = islice(session.kept, sent - session.first)
        self.n_bytes_sent = session.n_bytes_gone + sum(map(len, kept))
        self.acknowledged = session.expected
        self.is_caller = is_caller
        self.progress_at = self.said_at = asyncio.get_running_loop().time()
        self.is_new = asyncio.Event()  # is there something to send, or room to send it?

    def next_messages(self) -> list[bytes]:
        """Messages for one frame, if what is on its way leaves room for it."""
        place = self.sent - self.session.first
        found, n_bytes = list[bytes](), 0
        if place < 0 or self.n_bytes_sent - self.session.n_bytes_gone > _MOST_ON_THE_WAY:
            return found
        for message in islice(self.session.kept, place, None):
            if found and n_bytes + len(message) > FRAME_BYTES:
                break
            found.append(message)
            n_bytes += len(message)
        self.sent += len(found)
        self.n_bytes_sent += n_bytes
        return found

    def is_behind(self, now: float) -> bool:
        """Does the peer read, but too slowly?"""
        is_full = 2 * self.session.n_bytes > self.session.room
        return is_full and now - self.progress_at < _PATIENCE

    def answer(self, is_held_up: bool, now: float) -> None:
        """Acknowledge what the peer has sent, unless others are held up, and wake up who sends to it."""
        is_due = self.session.expected != self.acknowledged and not is_held_up
        if is_due or now - self.said_at > SECONDS_OF_SILENCE / 4:
            if not is_held_up:
                self.acknowledged = self.session.expected
            self.said_at = now
            self.writer.write(ack_frame(self.acknowledged))
        if self.session.next > self.sent:
            self.is_new.set()

    def note_progress(self, expected: int) -> None:
        """The peer has acknowledged everything before this message."""
        if expected > self.sent:
            raise LinkError(f"{self.peer.name} acknowledges what was not sent to it")
        if expected > self.session.first:
            self.progress_at = asyncio.get_running_loop().time()

    async def send(self) -> None:
        """Send what is in the session, as far as the peer keeps up."""
        while True:
            await self.is_new.wait()
            self.is_new.clear()
            while messages := self.next_messages():
                self.writer.write(data_frame(self.sent - len(messages), messages))
                await self.writer.drain()

    def close(self, reason: str = "") -> None:
        """End it; its tasks notice."""
        with contextlib.suppress(OSError):
            if reason:
                self.writer.write(frame(FrameKind.REFUSAL, reason.encode()[:1000]))
            self.writer.close()
