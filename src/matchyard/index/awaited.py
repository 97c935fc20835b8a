"""Awaited: the answer of an event that a task of asyncio waits for.

It is a module of its own, since asyncio takes time to import.
"""

from __future__ import annotations

import asyncio
from typing import Any

from matchyard.index.futures import Answer


class Awaited(Answer):
    """An answer that the event loop of the running task gets."""

    def __init__(self, event: Any) -> None:
        super().__init__(event)
        self.loop = asyncio.get_running_loop()
        self._given: asyncio.Future[list[Any]] = self.loop.create_future()

    async def keys(self) -> list[Any]:
        """Wait for the event's keys, and return them."""
        try:
            return await self._given
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            del self  # the frames of a raised error would keep it alive

    def wake(self) -> None:
        """Hand the keys or the error to the waiting task. The event loop calls this."""
        if self._given.done():  # cancelled meanwhile
            return
        if self._exception is not None:
            self._given.set_exception(self._exception)
        else:
            self._given.set_result(self._result)
