"""Addresses of routers: host:port."""

from __future__ import annotations

import ipaddress

from matchyard.errors import UsageError


def parse_address(text: str) -> tuple[str, int]:
    """Split an address into host and port.

    >>> parse_address("127.0.0.1:7000")
    ('127.0.0.1', 7000)
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError(f"address {text!r}; expected host:port, e.g. 127.0.0.1:7000")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """True if only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
