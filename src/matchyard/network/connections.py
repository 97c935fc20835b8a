"""A connection between a router and a peer: sending with flow control, and acknowledging."""

from __future__ import annotations

import asyncio
import contextlib
import math
from itertools import islice

from matchyard.network.frames import (
    SECONDS_OF_SILENCE,
    FrameKind,
    LinkError,
    ack_frame,
    data_frame,
    frame,
)
from matchyard.network.peers import Peer, Role
from matchyard.network.sessions import Session

FRAME_BYTES = 256 << 10  # messages per frame
_SHARE_ON_THE_WAY = 16  # one part in 16 of a session's room may be unacknowledged
PATIENCE = 2.0  # seconds without progress after which a peer stops holding up others


class AlreadyConnected(LinkError):
    """A second connection of a neighbour; the first one stays open."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(f"{peer.name} is connected already")
        self.peer = peer


class Connection:
    """An open connection to a peer."""

    def __init__(
        self,
        peer: Peer,
        writer: asyncio.StreamWriter,
        session: Session,
        sent: int,
        is_caller: bool,
    ) -> None:
        """`is_caller` is True if this end opened the connection."""
        self.peer, self.writer, self.session = peer, writer, session
        self.sent = max(sent, session.first)  # the sequence number of the next message to send
        kept = islice(session.kept, self.sent - session.first)
        self.n_bytes_sent = self._n_bytes_before = session.n_bytes_gone + sum(map(len, kept))
        self.acknowledged = session.expected
        self.is_caller = is_caller
        self.progress_at = self.said_at = asyncio.get_running_loop().time()
        self.told_at = -math.inf  # when the peer was last held up, by its own report
        self.is_new = asyncio.Event()  # set when there are messages to send, or room to send them

    def next_messages(self) -> list[bytes]:
        """The next messages for one frame; none while too many bytes are unacknowledged."""
        position = self.sent - self.session.first
        messages, n_bytes = list[bytes](), 0
        if position < 0:  # the peer has got more over an earlier connection
            position, self.sent = 0, self.session.first
            self.n_bytes_sent = self.session.n_bytes_gone
        if self._n_bytes_on_the_way() > self.session.room // _SHARE_ON_THE_WAY:
            return messages
        for message in islice(self.session.kept, position, None):
            if messages and n_bytes + len(message) > FRAME_BYTES:
                break
            messages.append(message)
            n_bytes += len(message)
        self.sent += len(messages)
        self.n_bytes_sent += n_bytes
        return messages

    def _n_bytes_on_the_way(self) -> int:
        """The bytes sent on this connection and not acknowledged yet."""
        return self.n_bytes_sent - max(self.session.n_bytes_gone, self._n_bytes_before)

    def held_up_at(self) -> float:
        """The last time at which the peer held up others; -inf if its session is less than half full.
        A peer holds up others while it makes progress, or reports that it is held up itself."""
        is_full = 2 * self.session.n_bytes > self.session.room
        return max(self.progress_at, self.told_at) if is_full else -math.inf

    def answer(self, held_up_at: float, now: float) -> None:
        """Acknowledge messages of the peer unless this router is held up, and wake up `send`."""
        is_held_up = now - held_up_at < PATIENCE
        is_due = self.session.expected != self.acknowledged and not is_held_up
        silence = SECONDS_OF_SILENCE / 4 if not is_held_up else PATIENCE / 8
        if is_due or now - self.said_at > silence:
            if not is_held_up:
                self.acknowledged = self.session.expected
            self.said_at = now
            self.writer.write(ack_frame(self.acknowledged, now - held_up_at))
        if self.session.next > self.sent:
            self.is_new.set()

    def note_progress(self, expected: int, held_for: float) -> None:
        """Take an acknowledgement of all messages before `expected`; `held_for` is the peer's own report."""
        if expected > self.sent:
            raise LinkError(f"{self.peer.name} acknowledges messages that were not sent to it")
        now = asyncio.get_running_loop().time()
        if expected > self.session.first:
            self.progress_at = now
        if self.peer.role is Role.ROUTER:
            self.told_at = now - held_for

    async def send(self) -> None:
        """Send the messages of the session, as far as flow control allows."""
        while True:
            await self.is_new.wait()
            self.is_new.clear()
            while messages := self.next_messages():
                self.writer.write(data_frame(self.sent - len(messages), messages))
                await self.writer.drain()

    def close(self, reason: str = "") -> None:
        """Close the connection, which ends its tasks; send the reason to the peer."""
        with contextlib.suppress(OSError):
            if reason:
                self.writer.write(frame(FrameKind.REFUSAL, reason.encode()[:1000]))
            self.writer.close()
