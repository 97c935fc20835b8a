"""Run tests under memcheck without CuPy's memory pool, which would hide accesses out of bounds."""

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
