"""A station on disk: a checkpoint, and the inputs since then. They restore a killed router.

    STATE/checkpoint-7      the state at the beginning of log 7; written whole
    STATE/log-7             a journal with a record for each batch of inputs, written before the batch is processed
    STATE/log-7.cut         what an interrupted write left at the end of the log, cut off at a start
    STATE/lock              held by the router that uses the folder

Both have the form of `storage.journal`. A new log is there before its checkpoint, so a checkpoint without its log is
damage. The body of a log record is a sequence of inputs: 1 role, 1 kind, 8 number, 2 length of the peer's name, 4
length of the data, then both.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matchyard.errors import StorageError
from matchyard.network.messages import (
    LinkState,
    tags_from_bytes,
    texts_to_bytes,
    update_from_bytes,
    update_to_bytes,
)
from matchyard.network.old_state import is_old, records
from matchyard.network.packet import Packet, PacketError
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.plan import Plan
from matchyard.network.sessions import Session
from matchyard.network.settings import Settings
from matchyard.network.station import Station
from matchyard.network.tables import Plane, TreeUpdate
from matchyard.routing import Update, from_links
from matchyard.storage import Journal, read_whole

FORMAT = 1  # of the state, whatever files it is in
_INPUT = struct.Struct(">BBQHI")


class StationLog:
    """Opens a station from a folder, or makes a new one, and logs its inputs."""

    def __init__(
        self,
        folder: Path,
        name: str,
        settings: Settings,
        is_synced: bool = False,
        most: int = 64 << 20,
    ) -> None:
        """With `is_synced`, records also survive a power failure, but writing takes longer. A log longer than `most`
        bytes leads to a checkpoint."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it has what clients sent
        except OSError as error:
            raise StorageError(f"{folder} cannot be a folder for state: {error.strerror}") from None
        self._folder, self._is_synced, self._most = folder, is_synced, most
        self._lock = _locked(folder)
        try:
            self.station = self._opened(name, settings)
        except BaseException:
            os.close(self._lock)
            raise

    def _opened(self, name: str, settings: Settings) -> Station:
        self._number = max(map(_number, self._folder.glob("checkpoint-*")), default=0)
        if not self._number:
            self._check_new()
            return self._begun(Station(name, secrets.randbits(63) + 1, settings))
        checkpoint, log = (
            self._folder / f"{kind}-{self._number}" for kind in ("checkpoint", "log")
        )
        if is_old(checkpoint):
            station = _restored(records(checkpoint), name, settings)
            for body in records(log, is_log=True):
                station.process(list(_inputs(body)))
            return self._begun(station)
        station = _restored(read_whole(checkpoint), name, settings)
        self._journal = Journal.open(log, lambda body: station.process(list(_inputs(body))))
        if not self._journal.is_of_this_boot:
            self._journal.close()
            return self._begun(station)
        return station

    def _check_new(self) -> None:
        """Refuse a folder that has lost its checkpoint. A kill before the first one leaves an empty log."""
        for file in self._folder.glob("log-*"):
            if _number(file) > 1 or (_number(file) and next(read_whole(file), None) is not None):
                raise StorageError(
                    f"{self._folder} has {file.name}, but its checkpoint is missing; restore it from a copy"
                )

    def process(self, inputs: Sequence[Input]) -> None:
        """Log inputs, then let the station process them."""
        sequence = self._journal.append([b"".join(map(_input_bytes, inputs))])
        if self._is_synced:
            self._journal.sync(sequence)
        self.station.process(inputs)
        if self._journal.size_bytes > self._most:
            self.checkpoint()

    def close(self) -> None:
        """Release the folder."""
        self._journal.close()
        os.close(self._lock)

    def checkpoint(self) -> None:
        """Write the whole state, and begin a new log."""
        old = self._journal
        self._begun(self.station)
        old.close()

    def _begun(self, station: Station) -> Station:
        """Begin a new log, write the checkpoint that it follows, and remove older files."""
        number = self._number + 1
        log, checkpoint = (self._folder / f"{kind}-{number}" for kind in ("log", "checkpoint"))
        journal = Journal.create(log)
        try:
            Journal.create(checkpoint, _bodies(station)).close()
        except BaseException:
            journal.close()
            checkpoint.unlink(missing_ok=True)  # it may have its name: the log before it goes on
            raise
        self._number, self._journal = number, journal
        for old in [*self._folder.glob("checkpoint-*"), *self._folder.glob("log-*")]:
            if 0 < _number(old) < number:
                old.unlink()
        return station


def _locked(folder: Path) -> int:
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise StorageError(
            f"{folder} is used by a running router; expected another folder"
        ) from None
    return held


def _number(file: Path) -> int:
    match = re.fullmatch(r"(?:checkpoint|log)-(\d+)", file.name)
    return int(match[1]) if match else 0


# -------------------------------------------------------------------- inputs


def _input_bytes(one: Input) -> bytes:
    name = one.peer.name.encode()
    head = _INPUT.pack(one.peer.role, one.kind, one.number, len(name), len(one.data))
    return b"".join((head, name, one.data))


def _inputs(body: bytes) -> Iterator[Input]:
    at = 0
    while at < len(body):
        role, kind, number, n_name, n_data = _INPUT.unpack_from(body, at)
        at += _INPUT.size
        name = body[at : at + n_name].decode()
        at += n_name
        yield Input(Peer(Role(role), name), InputKind(kind), number, body[at : at + n_data])
        at += n_data


# -------------------------------------------------------------------- the state as records


def _bodies(station: Station) -> Iterator[bytes]:
    """The records of a station: a head in JSON, then sections of bytes; the head has their counts."""
    router, settings = station.router, station.settings
    sessions = list(station.sessions.items())
    planes = [
        {
            "version": plane.part.version,
            "names": list(plan.topology.names),
            "links": plan.topology.ends().tolist(),
            "salt": plan.salt,
            "places": _places(plane),
        }
        for version, plane in router.planes.items()
        for plan in [station.plans[version]]
    ]
    registered = list(router.applications)
    yield json.dumps(
        {
            "format": FORMAT,
            "name": station.name,
            "incarnation": station.incarnation,
            "settings": settings._asdict(),
            "neighbours": list(router.interfaces),
            "attached": sorted(map(str, router.attached)),
            "turn": router.turn,
            "shared": router.n_shared,
            "clashes": list(station.clashes.items()),
            "counts": vars(router.counts),
            "refused": station.refused,
            "states": len(station.states),
            "sessions": [
                {
                    "role": peer.role,
                    "name": peer.name,
                    "incarnation": one.incarnation,
                    "expected": one.expected,
                    "first": one.first,
                    "kept": len(one.kept),
                    "dropped": one.dropped,
                }
                for peer, one in sessions
            ],
            "planes": planes,
            "registered": [str(key) for key, _ in registered],
            "cache": len(router.cache),
        }
    ).encode()
    yield from (state.to_bytes() for state in station.states.values())
    for _, session in sessions:
        yield from session.kept
    yield from (texts_to_bytes(sorted(tags)) for _, tags in registered)
    for plane in router.planes.values():
        for tree, interface in _places(plane):
            wanted = Update(plane.rib.wanted(tree, interface))
            yield update_to_bytes(TreeUpdate(plane.part.version, tree, wanted))
    yield from (packet.to_bytes() for packet in router.cache)


def _restored(records: Iterator[bytes], name: str, settings: Settings) -> Station:
    """The station that wrote these records."""
    try:
        head = json.loads(next(records))
        if head["format"] != FORMAT:
            raise StorageError(f"a router's state of format {head['format']}; expected {FORMAT}")
        _check_same(head, name, settings)
        station = _filled(Station(name, head["incarnation"], settings), head, records)
        if next(records, None) is not None:
            raise ValueError("more records than its head says")
        return station
    except (KeyError, TypeError, ValueError, StopIteration, PacketError) as error:
        raise StorageError(f"the state of a router is damaged: {error!r}") from None


def _check_same(head: dict[str, Any], name: str, settings: Settings) -> None:
    if head["name"] != name:
        raise StorageError(f"the state of router {head['name']}; expected the state of {name}")
    before = Settings(**head["settings"])
    if before.common() != settings.common():
        raise StorageError(
            f"the state of a router with {before.common()}; expected {settings.common()}"
        )


def _places(plane: Plane) -> list[tuple[int, int]]:
    """The pairs of tree and interface of a plane."""
    return [
        (tree, interface) for tree, links in enumerate(plane.rib.links) for interface in (0, *links)
    ]


def _filled(station: Station, head: dict[str, Any], records: Iterator[bytes]) -> Station:
    """Load the state of a saved station into a new one."""
    router = station.router
    for neighbour in head["neighbours"]:
        router.connect(neighbour)
    states = [LinkState.from_bytes(next(records)) for _ in range(head["states"])]
    station.states = {state.name: state for state in states}
    for one in head["sessions"]:
        peer = Peer(Role(one["role"]), one["name"])
        session = station.sessions[peer] = Session(station.settings.session_bytes)
        session.incarnation, session.expected = one["incarnation"], one["expected"]
        session.first, session.dropped = one["first"], one["dropped"]
        for _ in range(one["kept"]):
            session.put(next(records), is_vital=True)
    registered = [(key, tags_from_bytes(next(records))) for key in head["registered"]]
    router.planes.clear()
    station.plans.clear()
    for one in head["planes"]:
        _add_plane(station, one, records)
    for key, tags in registered:
        router.applications.add(key, [tags])
    for _ in range(head["cache"]):
        router.cache.offer(Packet.from_bytes(next(records)))
    router.attached.update(head["attached"])
    router.turn, router.n_shared, station.refused = head["turn"], head["shared"], head["refused"]
    vars(router.counts).update(head["counts"])
    station.clashes.update(map(tuple, head["clashes"]))
    return station


def _add_plane(station: Station, saved: dict[str, Any], records: Iterator[bytes]) -> None:
    settings, router = station.settings, station.router
    topology = from_links(saved["links"], names=saved["names"])
    plan = Plan(topology, settings.trees, settings.rule, settings.seed, saved["salt"])
    if plan.version != saved["version"]:
        raise StorageError(
            "the trees of a saved router cannot be grown again: another release saved it"
        )
    station.plans[plan.version] = plan
    router.install(plan.part(topology.node(station.name)))
    rib = router.planes[plan.version].rib
    for tree, interface in saved["places"]:
        rib.apply(update_from_bytes(next(records)).update, tree, interface)
