"""The queue of inputs between the connections of a router and its station."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from matchyard.network.peers import Input

MOST_WAITING = 8 << 20  # bytes of messages that are not processed yet; less for small sessions


class InputQueue:
    """Collects inputs for the next batch; senders wait while it has more than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inputs: list[Input] = []
        self._n_waiting = 0
        self._has_input, self._has_room = asyncio.Event(), asyncio.Event()
        self._done: list[asyncio.Future[None]] = []
        self._has_room.set()

    async def next_batch(self) -> tuple[list[Input], list[asyncio.Future[None]]]:
        """Wait for inputs; return them, and the futures to complete after their processing."""
        await self._has_input.wait()
        self._has_input.clear()
        inputs, self._inputs, self._n_waiting = self._inputs, [], 0
        done, self._done = self._done, []
        self._has_room.set()
        return inputs, done

    async def submit(self, inputs: Sequence[Input]) -> None:
        """Put inputs into the next batch."""
        self._inputs += inputs
        self._n_waiting += sum(len(one.data) for one in inputs)
        self._has_input.set()
        if self._n_waiting > self._most:
            self._has_room.clear()
            await self._has_room.wait()

    async def processed(self) -> None:
        """Wait until all inputs submitted so far are processed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.append(done)
        self._has_input.set()
        await done
