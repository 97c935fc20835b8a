"""A hook of Hatchling: put machine code into the wheel, which then is of one platform and one Python."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformWheel(BuildHookInterface):  # type: ignore[type-arg]
    """Without MATCHYARD_COMPILED, the wheel is pure Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the folder that MATCHYARD_COMPILED names, and name the platform."""
        folder = os.environ.get("MATCHYARD_COMPILED")
        if folder:
            build_data["force_include"][folder] = "matchyard/compiled"
            build_data["pure_python"] = False
            build_data["tag"] = _tag()


def _tag() -> str:
    """The tag of this platform. Machine code of kernels needs nothing of the C library itself."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{platform.replace('linux_', 'manylinux_2_17_')}"
