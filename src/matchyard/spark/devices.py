"""The device of a task: the GPU that Spark assigned to it, or the CPU.

Spark assigns GPUs as resources (`spark.task.resource.gpu.amount`), and a task knows the address of
its GPU. A worker process uses the card of its first task for all later tasks.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from pyspark import TaskContext

from matchyard.errors import DeviceError

_log = logging.getLogger("matchyard")
DEVICES = ("auto", "cpu", "gpu")
_SHOWN = "CUDA_VISIBLE_DEVICES"


def gpu_for(device: str) -> str | None:
    """The address of the GPU for this task; None for the CPU."""
    if device == "cpu":
        return None
    context = TaskContext.get()
    gpu = None if context is None else context.resources().get("gpu")
    if gpu is not None and gpu.addresses:
        return str(gpu.addresses[0])
    if device == "gpu":
        raise DeviceError(
            "device='gpu', but Spark has given this task no GPU; set spark.task.resource.gpu.amount, "
            "spark.executor.resource.gpu.amount and spark.executor.resource.gpu.discoveryScript"
        )
    return None


def opened_on(gpu: str | None, device: str, make: Callable[[str], Any]) -> Any:
    """Call `make` for the GPU, or for the CPU if there is no GPU, or if it fails and is optional."""
    if gpu is None:
        return make("cpu")
    if "cupy" not in sys.modules:  # CuPy looks for cards once
        os.environ[_SHOWN] = shown(gpu, os.environ.get(_SHOWN))
    else:
        os.environ.setdefault(_SHOWN, gpu)  # CuPy is imported, but perhaps not used yet
    try:
        return make("gpu")
    except DeviceError as error:
        if device == "gpu":
            raise
        _say_once(f"matching on the CPU, though Spark has given this task GPU {gpu}: {error}")
        return make("cpu")


def shown(gpu: str, cards: str | None) -> str:
    """The card to show to CUDA for Spark's address. If the cluster limits the visible cards already,
    the address is the name of one of them, or its position among them.

    >>> shown("2", None), shown("2", "0,1,2"), shown("1", "GPU-ab,GPU-cd")
    ('2', '2', 'GPU-cd')
    """
    if cards is None:
        return gpu
    names = [name.strip() for name in cards.split(",")]
    if gpu in names:
        return gpu
    return names[int(gpu)] if gpu.isdecimal() and int(gpu) < len(names) else cards


@cache
def _say_once(message: str) -> None:
    _log.warning(message)
