"""Which device is picked, and what is said where there is none; GPUs themselves are in tests/gpu."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import matchyard as my
from matchyard.engine import OnCard, configure
from matchyard.gpu import devices


@pytest.fixture
def without_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CuPy cannot be imported."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    devices.the_cupy.cache_clear()
    yield
    devices.the_cupy.cache_clear()


@pytest.fixture
def without_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CuPy is there, and no card."""

    def count() -> int:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    runtime = SimpleNamespace(getDeviceCount=count)
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    devices.the_cupy.cache_clear()
    yield
    devices.the_cupy.cache_clear()


def test_a_gpu_without_cupy_is_an_error_that_says_how_to_get_it(without_cupy: None) -> None:
    with pytest.raises(my.DeviceError, match=r"pip install 'matchyard\[gpu\]'"):
        my.TagIndex(device="gpu")
    assert "pip install" in devices.report()


def test_a_gpu_that_is_not_there_is_an_error_that_says_so(without_card: None) -> None:
    with pytest.raises(my.DeviceError, match="no CUDA-capable device"):
        my.TagIndex(device="gpu")
    assert "no CUDA-capable device" in devices.report()


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


def test_what_an_algorithm_does_not_run_on_is_an_error() -> None:
    with pytest.raises(
        my.DeviceError, match=r"prefix_tree does not run on device 'gpu'; it runs on: cpu"
    ):
        my.TagIndex("prefix_tree", device="gpu")


@pytest.mark.parametrize(
    "name", ["tpu", "", "cpu:", "cpu:3", "auto:0", "gpu:", "gpu:all", "gpu:0,", "gpu:-1", None, 0]
)
def test_what_is_no_device_is_an_error_wherever_one_is_named(name: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.index"
    index = my.TagIndex().add("jazz", key=1).save(path)
    for use in (
        lambda: my.TagIndex(device=name),
        lambda: my.open(path, device=name),
        lambda: my.algorithms("tags", name),
        lambda: index.move(name),
    ):
        with pytest.raises(my.DeviceError, match=r"no device .*; expected .* such as 'gpu:0,1'"):
            use()
    assert index.device == "cpu"


def test_algorithms_are_those_of_the_device_whatever_its_cards() -> None:
    assert my.algorithms("tags", "gpu:0,1") == my.algorithms("tags", "gpu")
    assert "prefix_tree" in my.algorithms("tags", "cpu")


class FakeCuda:
    """A card, and how it is."""

    def __init__(self) -> None:
        self.free, self.own, self.current = 8 << 30, 0, 0
        self.given_back: list[object] = []
        pool = SimpleNamespace(
            total_bytes=lambda: self.own,
            free_all_blocks=lambda: self.given_back.append(self.current),
        )
        pinned = SimpleNamespace(free_all_blocks=lambda: self.given_back.append("host"))
        self.runtime = SimpleNamespace(
            getDeviceCount=lambda: 2,
            getDevice=lambda: self.current,
            setDevice=lambda number: setattr(self, "current", number),
            memGetInfo=lambda: (self.free, 10 << 30),
            getDeviceProperties=lambda number: {"name": b"a card"},
        )
        self.nvrtc = SimpleNamespace(getVersion=lambda: (12, 9))
        self.cupy = SimpleNamespace(
            cuda=self,
            get_default_memory_pool=lambda: pool,
            get_default_pinned_memory_pool=lambda: pinned,
        )

    def Device(self, number: int) -> Any:
        return devices.on(devices.Card(number, 0, 1))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """There seem to be cards."""
    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "cupy", fake.cupy)  # type: ignore[arg-type]
    monkeypatch.setattr(devices, "_faults", lambda: (MemoryError,))
    monkeypatch.setattr(devices, "_turned_to", {0})
    devices.the_cupy.cache_clear()
    yield fake
    devices.the_cupy.cache_clear()


def test_without_nvrtc_a_card_is_none(cuda: FakeCuda) -> None:
    def missing() -> None:
        raise RuntimeError("CuPy failed to load libnvrtc.so.12")

    cuda.nvrtc.getVersion = missing  # type: ignore[assignment]
    assert devices.pick("auto", ("cpu", "gpu"), "tags/rarest") == "cpu"
    with pytest.raises(my.DeviceError, match=r"not NVRTC.*cupy-cuda12x\[ctk\].*libnvrtc.so.12"):
        devices.pick("gpu", ("cpu", "gpu"), "tags/rarest")


def test_what_other_processes_have_on_a_card_is_no_room(cuda: FakeCuda) -> None:
    place = devices.Card(0, 0, 1)
    cuda.free = 10 << 30
    assert devices.room(place) == 8 << 30  # four fifths of it
    cuda.free = 5 << 29
    assert devices.room(place) == 4 << 29
    cuda.own = 5 << 29  # which is one's own to use again
    assert devices.room(place) == 4 << 30
    assert devices.room(devices.Card(0, 1, 2)) == 4 << 29


def test_auto_takes_no_card_that_is_full(cuda: FakeCuda, caplog: pytest.LogCaptureFixture) -> None:
    def picked() -> str:
        return devices.pick("auto", ("cpu", "gpu"), "tags/rarest")

    assert picked() == "gpu"
    cuda.free = 1 << 20
    with caplog.at_level(logging.INFO, "matchyard.device"):
        assert picked() == "cpu"
    assert "too little memory: a card, 0.0 of 10.0 GiB free" in caplog.messages[-1]


def test_memory_is_given_back_by_every_card_that_was_used_and_by_the_host(cuda: FakeCuda) -> None:
    with devices.on(devices.Card(1, 0, 1)):
        pass
    devices.forget_memory()
    assert cuda.given_back == [0, 1]
    devices.forget_host_memory()
    assert cuda.given_back == [0, 1, "host"]


def test_auto_is_picked_once_when_an_index_is_opened(
    without_card: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    my.TagIndex().add("jazz", key=1).save(tmp_path / "a.index")
    with caplog.at_level(logging.INFO, "matchyard.device"):
        assert my.open(tmp_path / "a.index", device="auto").device == "cpu"
    assert len(caplog.messages) == 1


def test_a_card_that_others_have_turned_to_is_turned_back_to(cuda: FakeCuda) -> None:
    cuda.current = 1  # by a user's own code
    with devices.on(devices.Card(0, 0, 1)):
        assert cuda.current == 0
    assert cuda.current == 1


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """There are two cards; the list has those that were turned to."""
    turned: list[int] = []
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 2,
        getDevice=lambda: turned[-1] if turned else 0,
        setDevice=turned.append,
    )
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(devices, "the_cupy", lambda: fake)
    monkeypatch.setattr(devices, "_faults", lambda: (MemoryError,))
    monkeypatch.setattr(devices, "_turned_to", {0})
    return turned


def test_cards_are_named_by_their_numbers(two_cards: list[int]) -> None:
    assert devices.cards("gpu") == (devices.Card(0, 0, 1),)
    assert devices.cards("gpu:1") == (devices.Card(1, 0, 1),)
    assert devices.cards("gpu:1,0") == (devices.Card(1, 0, 1), devices.Card(0, 0, 1))
    assert devices.cards("gpu:0,0") == (devices.Card(0, 0, 2), devices.Card(0, 1, 2))


def test_a_card_that_is_not_there_is_an_error(two_cards: list[int]) -> None:
    with pytest.raises(my.DeviceError, match="there is no card 2, but 2 cards"):
        my.TagIndex(device="gpu:0,2")


def test_a_thread_returns_from_a_card(two_cards: list[int]) -> None:
    with devices.on(devices.Card(1, 0, 1)):
        assert devices.here().number == 1
        with devices.on(devices.Card(1, 1, 2)):
            assert devices.here().part == 1
        assert devices.here().part == 0
    assert devices.here().number == 0
    assert two_cards == [1, 0]


def test_a_card_that_a_thread_cannot_turn_to_is_not_the_one_it_uses(
    two_cards: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(devices.the_cupy().cuda.runtime, "setDevice", fail)
        with pytest.raises(my.DeviceError), devices.on(devices.Card(1, 0, 1)):
            pass
    assert devices.here().number == 0
    with devices.on(devices.Card(1, 0, 1)):
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

    monkeypatch.setattr("matchyard.index.segment.Segment.moved", refused)
    monkeypatch.setattr(
        "matchyard.index.verbs.configure",
        lambda *_: configure("tags", "rarest", options | {"leaf": 7}),
    )
    with pytest.raises(my.DeviceError, match="no room"):
        index.move("cpu")
    assert index.options == options
