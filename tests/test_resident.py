"""What is kept on cards goes with its array, or when it is told to. The card is made up here."""

from __future__ import annotations

import sys
import traceback
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import matchyard as my
from matchyard.engine import ENGINES
from matchyard.gpu import compilation, devices, lanes, resident

ON_GPU = [(engine, name) for engine in ENGINES for name in my.algorithms(engine, "gpu")]
SUBSCRIPTIONS = {"tags": "jazz live", "predicates": "x > 1 and y = 2", "twigs": "//a[b]"}


class OnCard(np.ndarray):  # type: ignore[type-arg]
    """An array with an address, as CuPy gives it one."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


class Card:
    """Knows which arrays there are on it, and how many were left whenever memory was given back."""

    def __init__(self) -> None:
        self.left: list[int] = []
        self._made: list[weakref.ref[Any]] = []
        self.cupy = MagicMock()
        self.cupy.asarray = self.copy
        self.cupy.zeros = lambda size, kind: np.zeros(size, kind).view(OnCard)
        runtime = self.cupy.cuda.runtime
        runtime.getDeviceCount = lambda: 1
        runtime.getDevice = lambda: 0
        runtime.memGetInfo = lambda: (1 << 40, 1 << 40)
        runtime.getDeviceProperties = lambda number: {"name": b"a card"}
        self.cupy.cuda.Device().attributes = {"MaxSharedMemoryPerBlockOptin": 1 << 16}
        self.cupy.get_default_memory_pool().free_all_blocks = self.free
        self.cupy.get_default_memory_pool().total_bytes = lambda: 0

    def copy(self, array: Any) -> Any:
        there = np.array(array).view(OnCard)
        self._made.append(weakref.ref(there))
        return there

    def free(self) -> None:
        self.left.append(self.n_arrays)

    @property
    def n_arrays(self) -> int:
        return sum(made() is not None for made in self._made)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    """The only card of this process, with nothing on it."""
    found = Card()
    monkeypatch.setitem(sys.modules, "cupy", found.cupy)
    monkeypatch.setitem(sys.modules, "cupyx", MagicMock())
    monkeypatch.setattr(resident.kept, "_things", {})
    for cached in (devices.the_cupy, compilation._module):
        cached.cache_clear()
    yield found
    for cached in (devices.the_cupy, compilation._module):
        cached.cache_clear()


def test_a_copy_serves_all_and_goes_with_its_array(card: Card) -> None:
    array = np.arange(10)
    there = resident.on_card(array)
    assert resident.on_card(array) is there
    assert resident.on_card(array[2:]).tolist() == array[2:].tolist()
    assert len(resident.kept) == card.n_arrays == 2
    del array, there
    assert len(resident.kept) == card.n_arrays == 0


def test_what_is_forgotten_is_gone_before_memory_is_given_back(card: Card) -> None:
    table, other = (np.arange(3), np.arange(4)[1:]), (np.arange(5),)
    for array in (*table, *other):
        resident.on_card(array)
    resident.forget([table])
    assert card.left == [1]
    assert len(resident.kept) == 1
    assert resident.on_card(table[0]).tolist() == [0, 1, 2]  # for whoever has the same array


def test_forgetting_again_and_again_leaves_nothing_behind(card: Card) -> None:
    array = np.arange(3)
    before = len(weakref.finalize._registry)  # type: ignore[attr-defined]
    for _ in range(5):
        resident.on_card(array)
        resident.forget([(array,)])
    assert len(weakref.finalize._registry) == before  # type: ignore[attr-defined]


def test_a_card_that_failed_gives_nothing_back_and_hinders_nobody(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fault(Exception):
        pass

    monkeypatch.setattr(devices, "_faults", lambda: (MemoryError, Fault))
    card.cupy.get_default_memory_pool().free_all_blocks = MagicMock(side_effect=Fault("gone"))
    array = np.arange(3)
    resident.on_card(array)
    resident.forget([(array,)])
    assert card.n_arrays == 0


@pytest.mark.parametrize(("engine", "algorithm"), ON_GPU)
def test_an_index_that_moves_to_the_cpu_leaves_nothing_on_the_card(
    engine: str, algorithm: str, card: Card
) -> None:
    one, other = (
        my.create(engine, algorithm, device="gpu").add(SUBSCRIPTIONS[engine], key=1).consolidate()
        for _ in range(2)
    )
    n_arrays = 0
    for index in (one, other):
        (segment,) = index.segments()
        borrowed = segment.workspaces.borrow()
        for _, space in borrowed:
            getattr(space, "on_card", None)  # `auto` copies a table when it is worth it
        segment.workspaces.give_back(borrowed)
        n_arrays, n_before = card.n_arrays, n_arrays
        assert n_arrays > n_before
    del segment, borrowed, space
    one.move("cpu")
    assert card.left == [card.n_arrays] == [n_arrays - n_before]  # those of the other one
    assert one.device == "cpu"
    other.move("cpu")
    assert card.left[-1] == len(resident.kept) == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_an_index_that_moves_while_its_failure_is_handled_leaves_nothing_there(
    threads: int, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = my.TagIndex(device="gpu").add("jazz", key=1).consolidate()

    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(devices, "_faults", lambda: (MemoryError,))
    monkeypatch.setattr(lanes.Lane, "staged", fail)
    try:
        index.match(["jazz"] * 600, threads)
    except my.DeviceError as error:
        assert card.n_arrays > 0
        index.move("cpu")
        assert card.left[-1] == 0
        names = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]  # type: ignore[union-attr]
        assert "match" in names  # where it was is still told
    else:
        raise AssertionError("no error")
    assert index.match(["jazz"])[0] == [1]


def test_an_error_that_comes_while_another_is_handled_leaves_that_alone(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = my.TagIndex(device="gpu").add("jazz", key=1).consolidate()
    monkeypatch.setattr(devices, "_faults", lambda: (MemoryError,))
    monkeypatch.setattr(lanes.Lane, "staged", MagicMock(side_effect=MemoryError))

    def numbers() -> Iterator[Any]:
        for number in range(3):
            try:
                raise KeyError(number)
            except KeyError as error:
                yield error

    seen = []
    for error in numbers():
        try:
            raise error
        except KeyError:
            with pytest.raises(my.DeviceError):
                index.match(["jazz"])
            seen.append(error.args[0])
    assert seen == [0, 1, 2]
