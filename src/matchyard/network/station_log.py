"""A station on disk: a checkpoint, and the inputs since then. They restore a killed router.

    STATE/checkpoint-7      records of the state at the beginning of log 7
    STATE/log-7             a record for each batch of inputs, written before the batch is processed
    STATE/lock              held by the router that uses the folder

A record is 4 bytes length, 4 bytes CRC-32 of the body, 4 bytes CRC-32 of these eight, and the body. An incomplete
record at the end of a log is dropped: no peer has seen outputs of its batch. Damage elsewhere is an error. The body of a log
record is a sequence of inputs: 1 role, 1 kind, 8 number, 2 length of the peer's name, 4 length of the data, then both.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import struct
import zlib
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
from matchyard.network.packet import Packet, PacketError
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.plan import Plan
from matchyard.network.sessions import Session
from matchyard.network.settings import Settings
from matchyard.network.station import Station
from matchyard.network.tables import Plane, TreeUpdate
from matchyard.routing import Update, from_links
from matchyard.storage import sync_folder

FORMAT = 1
_RECORD, _CHECK = struct.Struct(">II"), struct.Struct(">I")
_HEAD_BYTES = _RECORD.size + _CHECK.size
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
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{folder} cannot be a folder for state: {error.strerror}") from None
        self._folder, self._is_synced, self._most = folder, is_synced, most
        self._lock = _locked(folder)
        try:
            self.station = self._opened(name, settings)
        except BaseException:
            os.close(self._lock)
            raise
        self._file = self._log().open("ab")

    def _opened(self, name: str, settings: Settings) -> Station:
        self._number = max((_number(file) for file in self._folder.glob("checkpoint-*")), default=0)
        if self._number:
            station = _restored(_records(self._checkpoint()), name, settings)
            self._replay(station)
        else:
            station = Station(name, secrets.randbits(63) + 1, settings)
            self._write(station)
        return station

    def _checkpoint(self) -> Path:
        return self._folder / f"checkpoint-{self._number}"

    def _log(self) -> Path:
        return self._folder / f"log-{self._number}"

    def process(self, inputs: Sequence[Input]) -> None:
        """Log inputs, then let the station process them."""
        self._file.write(_framed(b"".join(map(_input_bytes, inputs))))
        self._file.flush()
        if self._is_synced:
            os.fsync(self._file.fileno())
        self.station.process(inputs)
        if self._file.tell() > self._most:
            self.checkpoint()

    def close(self) -> None:
        """Release the folder."""
        self._file.close()
        os.close(self._lock)

    def checkpoint(self) -> None:
        """Write the whole state, and begin a new log."""
        self._file.close()
        self._write(self.station)
        self._file = self._log().open("ab")

    def _write(self, station: Station) -> None:
        self._number += 1
        unfinished = self._folder / "unfinished"
        with unfinished.open("wb") as file:
            for body in _bodies(station):
                file.write(_framed(body))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._checkpoint())
        self._log().touch()
        sync_folder(self._folder)
        for old in [*self._folder.glob("checkpoint-*"), *self._folder.glob("log-*")]:
            if _number(old) < self._number:
                old.unlink()

    def _replay(self, station: Station) -> None:
        path = self._log()
        if not path.exists():
            return
        end = 0
        for body in _records(path, is_log=True):
            station.process(list(_inputs(body)))
            end += _HEAD_BYTES + len(body)
        os.truncate(path, end)


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


# -------------------------------------------------------------------- records


def _framed(body: bytes) -> bytes:
    head = _RECORD.pack(len(body), zlib.crc32(body))
    return head + _CHECK.pack(zlib.crc32(head)) + body


def _records(path: Path, is_log: bool = False) -> Iterator[bytes]:
    """The records of a file. An incomplete record at the end of a log is ignored: a kill or a power failure
    interrupted its writing."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        body = _record_at(data, at)
        if body is None:
            if is_log and not any(_record_at(data, later) for later in range(at + 1, len(data))):
                return
            raise StorageError(f"{path} is damaged at byte {at}; expected a record there")
        yield body
        at += _HEAD_BYTES + len(body)


def _record_at(data: bytes, at: int) -> bytes | None:
    """The body of the record at a position, or None."""
    head, first = data[at : at + _RECORD.size], at + _HEAD_BYTES
    if first > len(data) or data[at + _RECORD.size : first] != _CHECK.pack(zlib.crc32(head)):
        return None
    length, check = _RECORD.unpack(head)
    body = data[first : first + length]
    return body if len(body) == length and zlib.crc32(body) == check else None


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
        return _filled(Station(name, head["incarnation"], settings), head, records)
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
