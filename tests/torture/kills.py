"""Kill writers at any moment: all acknowledged changes must be intact on disk afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import matchyard as my
from matchyard import shards
from tests.torture import inputs
from tests.torture.arena import Clock, Tally, outcome_of, seeded, split


def run(folder: Path, seed: int, seconds: float, least: int = 0) -> Tally:
    """Kill writers until time is up, with one engine after the other."""
    tally, random, clock = Tally("kills"), seeded(seed, "kills"), Clock(seconds, least)
    engines = [(engine, _begin(folder, engine, random)) for engine in my.ENGINES]
    while clock.goes_on():
        engine, state = random.choice(engines)
        outcome = outcome_of(lambda engine=engine, state=state: _kill(state, engine, random))
        kind, more = split(outcome)
        tally.count(kind, f"{engine} {more}")
        if kind != "whole":  # go on with a good one
            shutil.rmtree(state.path)
            state.restart()
    return tally


class _State:
    """An index on disk, and its allowed states."""

    def __init__(self, path: Path, engine: str, random: Random) -> None:
        self.path, self.engine = path, engine
        self.probe = [inputs.event(engine, random) for _ in range(3)]
        self.index: Any = my.create(engine)
        for number in range(20):
            self.index.add(inputs.subscription(engine, random), number)
        self.restart()

    def restart(self) -> None:
        """Save the index without a kill."""
        self.index.save(self.path)
        self.allowed = [self._seen(self.index)]

    def _seen(self, index: Any) -> Any:
        return len(index), inputs.answers(index, self.probe)

    def look(self) -> Any:
        """The state on disk, opened with all checks."""
        return self._seen(my.open(self.path, verify=True))


def _begin(folder: Path, engine: str, random: Random) -> _State:
    return _State(folder / f"{engine}.index", engine, random)


def _kill(state: _State, engine: str, random: Random) -> str:
    """Kill a child that changes the index repeatedly and reports each new state on disk."""
    read, write = os.pipe()
    how = random.choice([_save, _save, _append])
    seed = random.getrandbits(32)
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            how(state, Random(seed), write)
        finally:
            os._exit(1)
    os.close(write)
    time.sleep(random.choice([0.0005, 0.005, 0.03]) * random.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = b""
    while some := os.read(read, 1 << 16):
        said += some
    os.close(read)
    return _judge(state, said.decode().splitlines())


def _judge(state: _State, lines: list[str]) -> str:
    """Compare the disk with the child's lines: `begin STATE` before a change, `done STATE` after."""
    allowed = state.allowed
    for line in lines:
        word, _, text = line.partition(" ")
        if word == "done":
            allowed = [text]
        elif word == "begin":
            allowed = [*allowed, text]
        else:
            return f"crashed: {line}"
    found = repr(state.look())
    if found not in [one if isinstance(one, str) else repr(one) for one in allowed]:
        return f"lost: {found[:80]} is on disk, expected one of {len(allowed)} states"
    state.allowed = [found]
    return "whole"


def _changes(state: _State, random: Random, index: Any, write: int, publish: Any) -> None:
    for number in range(1000):
        index.add(inputs.subscription(state.engine, random), number % 50)
        if random.random() < 0.5:
            index.remove(random.randint(0, 49))
        index.consolidate()
        text = repr(state._seen(index))
        os.write(write, f"begin {text}\n".encode())
        publish(index)
        os.write(write, f"done {text}\n".encode())


def _save(state: _State, random: Random, write: int) -> None:
    try:
        index = my.open(state.path)
        _changes(state, random, index, write, lambda index: index.save(state.path))
    except BaseException as error:
        os.write(write, f"error {error!r}\n".encode())


def _append(state: _State, random: Random, write: int) -> None:
    """Carry the current version over and remove a key from it, as Spark's `append` does."""
    try:
        for _ in range(1000):
            index, gone = my.open(state.path), random.randint(0, 49)
            text = repr(state._seen(index.remove(gone).consolidate()))
            os.write(write, f"begin {text}\n".encode())
            removed = pa.table({"subscription": pa.array([None], pa.string()), "key": [gone]})
            with shards.new_version(state.path) as folder:
                taken = shards.carry(state.path, folder, removed)
                files = taken.files + shards.write_key_names(folder, taken.key_names)
                shards.publish(state.path, folder, files, taken.plan, taken.segments)
            os.write(write, f"done {text}\n".encode())
    except BaseException as error:
        os.write(write, f"error {error!r}\n".encode())
