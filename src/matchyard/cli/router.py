"""`matchyard router` runs a router; `register`, `notify`, `tail` and `status` talk to one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from matchyard.cli.arguments import AsJson
from matchyard.cli.terminal import say, summary

Address = Annotated[str, typer.Option("--router", help="The address of the router: host:port.")]
Key = Annotated[str, typer.Option(help="The name of the application.")]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with the secret that routers and clients share; by default MATCHYARD_SECRET."
    ),
]
_HERE = "127.0.0.1:7000"


def router(
    listen: Annotated[str, typer.Option(help="The address to listen at: host:port.")] = _HERE,
    connect: Annotated[
        list[str] | None,
        typer.Option(help="The address of a neighbour; as often as needed."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the state, from which a killed router recovers; without it, a router keeps no state "
            "across restarts."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the router; by default its address.")
    ] = None,
    trees: Annotated[
        int, typer.Option(min=1, help="Number of trees; the same at all routers.")
    ] = 8,
    rule: Annotated[
        str,
        typer.Option(help="The rule that chooses roots: L, LC or degree; the same at all routers."),
    ] = "LC",
    descriptors: Annotated[
        str, typer.Option(help="The form of descriptors: tags, or bloom; the same at all routers.")
    ] = "tags",
    secret_file: SecretFile = None,
    peer_secret: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE: a secret for the link to that neighbour alone; as often as needed."
        ),
    ] = None,
    sync: Annotated[
        bool, typer.Option(help="Also survive a power failure: wait for the disk at every batch.")
    ] = False,
    metrics: Annotated[
        str | None, typer.Option(help="Answer HTTP at this address with text for Prometheus.")
    ] = None,
) -> None:
    """Run a router until it is stopped.

    It listens on this machine alone by default, and on other addresses only with a secret. Routers share a map of
    the network and grow trees from it, so that a router needs only the addresses of its neighbours.
    """
    import logging

    from matchyard.network.links import RouterServer
    from matchyard.network.settings import Settings

    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    settings = Settings(trees=trees, rule=rule, descriptors=descriptors)
    server = RouterServer(
        listen,
        connect or (),
        name,
        state,
        _secret(secret_file),
        settings,
        sync,
        metrics,
        dict(map(_peer_secret, peer_secret or ())),
    )

    async def serve() -> None:
        await server.start()
        summary(f"router {server.name} listens at {server.address}")
        await server.finished()

    _run(serve())


def register(
    descriptors: Annotated[
        list[str],
        typer.Argument(help="Tags, separated by spaces; an argument for each registration."),
    ],
    key: Key,
    address: Address = _HERE,
    withdraw: Annotated[bool, typer.Option(help="Withdraw registrations instead.")] = False,
    secret_file: SecretFile = None,
) -> None:
    """Register an application at a router, for notifications with all tags of a descriptor."""
    from matchyard.network.client import Client

    async def work() -> None:
        async with Client(address, key, _secret(secret_file), patience=5.0) as client:
            await (client.withdraw if withdraw else client.register)(*descriptors)

    _run(work())
    what = "withdrew" if withdraw else "registered"
    summary(f"{key} {what} {len(descriptors)} at {address}")


def notify(
    tags: Annotated[
        str,
        typer.Argument(
            help="Tags, separated by spaces; or - for notifications from standard input."
        ),
    ],
    payload: Annotated[str, typer.Option(help="The content, as text.")] = "",
    fan_out: Annotated[
        str, typer.Option(help="The receivers: all, one, at most 3, at least 3.")
    ] = "all",
    key: Key = "notify",
    address: Address = _HERE,
    secret_file: SecretFile = None,
) -> None:
    """Send a notification; the router has accepted it when this returns.

    A line of standard input is tags, separated by spaces, or an object: {"tags": ["jazz"], "payload": "tonight"}.
    """
    from matchyard.network.client import Client

    n_sent = 0

    async def work() -> None:
        nonlocal n_sent
        async with Client(address, key, _secret(secret_file), patience=5.0) as client:
            for some, text in _lines() if tags == "-" else [(tags.split(), payload)]:
                await client.notify(some, text.encode(), fan_out)
                n_sent += 1
            await client.flush()

    _run(work())
    summary(f"{n_sent:,} accepted by {address}")


def _lines() -> Iterator[tuple[list[str], str]]:
    """Parse notifications from standard input."""
    from matchyard.errors import ParseError

    for number, line in enumerate(sys.stdin, 1):
        text = line.strip()
        if not text:
            continue
        if not text.startswith("{"):
            yield text.split(), ""
            continue
        try:
            notification = json.loads(text)
            yield [str(tag) for tag in notification["tags"]], str(notification.get("payload", ""))
        except (ValueError, KeyError, TypeError) as error:
            example = '{"tags": ["jazz"], "payload": "tonight"}'
            raise ParseError.of(
                "line {number}: {reason!r}; expected {expected}",
                number=number,
                reason=error,
                line=number,
                column=error.colno if isinstance(error, json.JSONDecodeError) else 1,
                found=text[:40],
                expected=f"tags, or {example}",
                example=example,
            ) from None


def tail(
    key: Key,
    address: Address = _HERE,
    count: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many packets; by default never.")
    ] = None,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the packets for an application, each once, from the last read position on."""
    from matchyard.network.client import Tail

    async def work() -> None:
        n_read = 0
        async with Tail(address, key, _secret(secret_file), patience=30.0) as packets:
            async for packet in packets:
                print(_shown(packet, as_json), flush=True)
                n_read += 1
                if n_read == count:
                    return

    _run(work())


def _shown(packet: Any, as_json: bool) -> str:
    from matchyard.cli.terminal import shown

    tags, text = sorted(packet.tags or ()), packet.payload.decode(errors="replace")
    if as_json:
        row = {
            "kind": packet.kind.name.lower(),
            "tags": tags,
            "payload": text,
            "hops": packet.hops,
            "sender": packet.sender,
        }
        return json.dumps(row)
    return f"{shown(' '.join(tags))}\t{shown(text)}"


def status(
    address: Address = _HERE, secret_file: SecretFile = None, as_json: AsJson = False
) -> None:
    """Print the status of a router: neighbours, tables, counts."""
    from matchyard.network.client import Client

    async def work() -> dict[str, Any]:
        async with Client(address, "status", _secret(secret_file), patience=5.0) as client:
            return await client.ask({"ask": "status"})

    facts = _run(work())
    if as_json:
        print(json.dumps(facts))
        return
    n_different = facts.get("different_trees", "?")  # an earlier release does not say it
    say(
        f"router {facts['name']}: {facts['routers']} routers on the map; different trees: "
        f"{n_different} of {facts['trees']}"
    )
    for name, link in facts["neighbours"].items():
        is_up = "connected" if link["is_connected"] else "away"
        say(f"  neighbour {name}: {is_up}, {link['waiting']:,} messages waiting")
    say(
        f"  {facts['registrations']:,} registrations here; table: {facts['filters']:,} descriptors, "
        f"{facts['entries']:,} entries"
    )
    say("  " + ", ".join(f"{name} {count:,}" for name, count in facts["counts"].items()))


def _secret(file: Path | None) -> bytes:
    from matchyard.errors import UsageError

    if file is None:
        return os.environ.get("MATCHYARD_SECRET", "").encode()
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"secret file {file}: {error.strerror}") from None
    if not secret:
        raise UsageError(f"secret file {file} is empty; expected a secret")
    return secret


def _peer_secret(text: str) -> tuple[str, bytes]:
    from matchyard.errors import UsageError

    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise UsageError(f"peer secret {text!r}; expected NAME=FILE")
    return name, _secret(Path(file))


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    import asyncio

    return asyncio.run(work)
