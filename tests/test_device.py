"""Which device is picked, and what is said where there is none; GPUs themselves are in tests/gpu."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import matchyard as my
from matchyard import device
from matchyard.engine import OnCard, configure


@pytest.fixture
def without_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CuPy cannot be imported."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    device.the_cupy.cache_clear()
    yield
    device.the_cupy.cache_clear()


@pytest.fixture
def without_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CuPy is there, and no card."""

    def count() -> int:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    runtime = SimpleNamespace(getDeviceCount=count)
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    device.the_cupy.cache_clear()
    yield
    device.the_cupy.cache_clear()


def test_a_gpu_without_cupy_is_an_error_that_says_how_to_get_it(without_cupy: None) -> None:
    with pytest.raises(my.DeviceError, match=r"pip install 'matchyard\[gpu\]'"):
        my.TagIndex(device="gpu")
    assert "pip install" in device.report()


def test_a_gpu_that_is_not_there_is_an_error_that_says_so(without_card: None) -> None:
    with pytest.raises(my.DeviceError, match="no CUDA-capable device"):
        my.TagIndex(device="gpu")
    assert "no CUDA-capable device" in device.report()


def test_auto_takes_the_cpu_and_says_why(
    without_card: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "matchyard.device"):
        index = my.TagIndex(device="auto").add("jazz", key=1).consolidate()
        assert my.TagIndex("prefix_tree", device="auto").device == "cpu"
    assert index.device == "cpu"
    assert index.match(["jazz"])[0] == [1]
    assert "no CUDA-capable device" in caplog.records[0].getMessage()
    assert "prefix_tree runs on the CPU alone" in caplog.records[1].getMessage()


@pytest.mark.parametrize("name", ["gpu", "tpu"])
def test_what_an_algorithm_does_not_run_on_is_an_error(name: str) -> None:
    with pytest.raises(
        my.DeviceError, match=r"prefix_tree does not run on device .* it runs on: cpu"
    ):
        my.TagIndex("prefix_tree", device=name)


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """There are two cards; the list has those that were turned to."""
    turned: list[int] = []
    runtime = SimpleNamespace(getDeviceCount=lambda: 2, setDevice=turned.append)
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(device, "the_cupy", lambda: fake)
    monkeypatch.setattr(device, "_faults", lambda: (MemoryError,))
    monkeypatch.setattr(device, "_turned_to", {0})
    return turned


def test_cards_are_named_by_their_numbers(two_cards: list[int]) -> None:
    assert device.places("gpu") == (device.Place(0, 0, 1),)
    assert device.places("gpu:1") == (device.Place(1, 0, 1),)
    assert device.places("gpu:1,0") == (device.Place(1, 0, 1), device.Place(0, 0, 1))
    assert device.places("gpu:0,0") == (device.Place(0, 0, 2), device.Place(0, 1, 2))


def test_a_card_that_is_not_there_is_an_error(two_cards: list[int]) -> None:
    with pytest.raises(my.DeviceError, match="there is no card 2, but 2 cards"):
        my.TagIndex(device="gpu:0,2")
    with pytest.raises(my.DeviceError, match="expected such as 'gpu:0,1'"):
        my.TagIndex(device="gpu:all")


def test_a_thread_returns_from_a_card(two_cards: list[int]) -> None:
    with device.on(device.Place(1, 0, 1)):
        assert device.here().number == 1
        with device.on(device.Place(1, 1, 2)):
            assert device.here().part == 1
        assert device.here().part == 0
    assert device.here().number == 0
    assert two_cards == [1, 0]


def test_a_card_that_a_thread_cannot_turn_to_is_not_the_one_it_uses(
    two_cards: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(device.the_cupy().cuda.runtime, "setDevice", fail)
        with pytest.raises(my.DeviceError), device.on(device.Place(1, 0, 1)):
            pass
    assert device.here().number == 0
    with device.on(device.Place(1, 0, 1)):
        assert two_cards == [1]


def test_moving_keeps_what_is_staged_and_what_is_built() -> None:
    index = my.TagIndex().add("jazz", key=1).consolidate().add("rock", key=2)
    assert index.move("cpu") is index
    assert index.match(["jazz rock"])[0] == [1]
    assert sorted(index.consolidate().match(["jazz rock"])[0]) == [1, 2]
    with pytest.raises(my.DeviceError):
        index.move("tpu")
    assert index.device == "cpu"


def test_an_algorithm_on_a_card_is_that_of_the_cpu_but_for_matching() -> None:
    on_cpu = SimpleNamespace(
        workspace=lambda table, options: "of the CPU",
        match_unique=lambda: None,
        locate="slow",
        Table="table",
    )
    on_gpu = SimpleNamespace(LAUNCH=9, workspace=lambda table, options: "there", match="fast")
    found: Any = OnCard(on_cpu, on_gpu)
    assert (found.LAUNCH, found.match, found.Table, found.locate) == (9, "fast", "table", "slow")
    assert found.workspace(None, None) == "there"
    assert found.locate_workspace(None, None) == "of the CPU"
    assert not hasattr(found, "match_unique")
    assert not hasattr(OnCard(SimpleNamespace(), on_gpu), "locate")


def test_an_index_that_cannot_be_moved_stays_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    index = my.TagIndex("rarest").add("jazz", key=1).consolidate()
    options = index.options

    def refused(*_: object) -> None:
        raise my.DeviceError("no room")

    monkeypatch.setattr("matchyard.consolidation.Segment", refused)
    monkeypatch.setattr(
        "matchyard.index.configure",
        lambda *_: configure("tags", "rarest", options | {"leaf": 7}),
    )
    with pytest.raises(my.DeviceError, match="no room"):
        index.move("cpu")
    assert index.options == options
