"""What every test can use: a quick Hypothesis profile, the marks `slow` and `gpu`, `build_index`, `store` and `hasty`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numba
import pytest
from hypothesis import HealthCheck, settings

from matchyard.gpu import devices
from tests.cases import DEVICE, build
from tests.gpu.kernels import launchers

settings.register_profile(
    "matchyard",
    max_examples=50,
    deadline=None,  # the first example may have to compile kernels
    derandomize="CI" in os.environ,  # the same examples on every run of one commit
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# Without the JIT, kernels are plain Python, and slow.
settings.register_profile("stepped", settings.get_profile("matchyard"), max_examples=5)
settings.load_profile("stepped" if numba.config.DISABLE_JIT else "matchyard")

# A shell that runs the tests in the background lets them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    if numba.config.DISABLE_JIT:  # compiled kernels wrap silently; NumPy's scalars wrap and warn
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = {} if config.getoption("--slow") else {"slow": "needs --slow"}
    if any(item.get_closest_marker("gpu") for item in items) and "GiB" not in devices.report():
        skip["gpu"] = devices.report()
    for item in items:
        for mark, reason in skip.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def build_index() -> Callable[..., Any]:
    """A consolidated tag index from lists: `build_index(["a b"], [1], "scan", {"n_bits": 6})`."""
    return build


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Events are cut into chunks of three, so that few of them cross the edges of chunks."""
    monkeypatch.setattr("matchyard.index.segment.CHUNK", 3)
    if DEVICE == "gpu":
        for _, launcher in launchers():
            monkeypatch.setattr(launcher, "LAUNCH", 3, raising=False)
    return 3


@pytest.fixture
def quick_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving does not wait for the disk; for tests that save often and cut no power."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """A server that speaks S3, on loopback."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
