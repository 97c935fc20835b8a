"""The page of metrics that a router serves over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from matchyard.network.frames import SECONDS_TO_PROVE


async def serve_page(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, metrics: Callable[[], str]
) -> None:
    """Answer any HTTP request with the metrics, as text in the format of Prometheus."""
    with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
        async with asyncio.timeout(SECONDS_TO_PROVE):
            await reader.readuntil(b"\r\n\r\n")
        text = metrics().encode()
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        head += f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()
    writer.close()
