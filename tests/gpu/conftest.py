"""Tests under memcheck have no pool of memory, within which nothing is out of bounds."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_memory() -> Iterator[None]:
    if os.environ.get("MATCHYARD_TEST_UNDER") != "memcheck":
        yield
        return
    import cupy

    cupy.cuda.set_allocator(None)
    yield
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
