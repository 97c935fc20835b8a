"""One connection between a router and a peer: what is sent on it, and how far the peer is behind."""

from __future__ import annotations

import asyncio
import contextlib
import math
from itertools import islice

from matchyard.network.frames import FrameKind, LinkError, ack_frame, data_frame, frame
from matchyard.network.sessions import Session
from matchyard.network.station import Peer, Role

FRAME_BYTES = 256 << 10  # of messages that go together
SECONDS_OF_SILENCE = 20.0  # after which a neighbour is taken for gone
_SHARE_ON_THE_WAY = 16  # of the room of a session, the part that may be sent and not acknowledged
PATIENCE = 2.0  # seconds that a peer may read nothing and hold others up


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
        self.n_bytes_sent = self._n_bytes_before = session.n_bytes_gone + sum(map(len, kept))
        self.acknowledged = session.expected
        self.is_caller = is_caller
        self.progress_at = self.said_at = asyncio.get_running_loop().time()
        self.told_at = -math.inf  # when somebody held the peer up, as it says
        self.is_new = asyncio.Event()  # is there something to send, or room to send it?

    def next_messages(self) -> list[bytes]:
        """Messages for one frame, if what is on its way leaves room for it."""
        place = self.sent - self.session.first
        found, n_bytes = list[bytes](), 0
        if place < 0 or self._n_bytes_on_the_way() > self.session.room // _SHARE_ON_THE_WAY:
            return found
        for message in islice(self.session.kept, place, None):
            if found and n_bytes + len(message) > FRAME_BYTES:
                break
            found.append(message)
            n_bytes += len(message)
        self.sent += len(found)
        self.n_bytes_sent += n_bytes
        return found

    def _n_bytes_on_the_way(self) -> int:
        """What the peer had when it connected has arrived, even if it has not been acknowledged."""
        return self.n_bytes_sent - max(self.session.n_bytes_gone, self._n_bytes_before)

    def held_up_at(self) -> float:
        """When the peer was last known to hold others up: its session is half full, and it reads, or says that
        others hold it up."""
        is_full = 2 * self.session.n_bytes > self.session.room
        return max(self.progress_at, self.told_at) if is_full else -math.inf

    def answer(self, held_up_at: float, now: float) -> None:
        """Acknowledge what the peer has sent, unless others are held up, and wake up who sends to it."""
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
        """The peer has acknowledged everything before this message, and says for how long others hold it up."""
        if expected > self.sent:
            raise LinkError(f"{self.peer.name} acknowledges what was not sent to it")
        now = asyncio.get_running_loop().time()
        if expected > self.session.first:
            self.progress_at = now
        if self.peer.role is Role.ROUTER:
            self.told_at = now - held_for

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
