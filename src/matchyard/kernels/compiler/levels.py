"""Levels of CPUs: each names instructions that a compiler may use on all CPUs of that level."""

from __future__ import annotations

import platform

from llvmlite import binding

# The levels of the x86-64 psABI. Each has the features of those before it.
_X86_64 = {
    "x86-64-v2": "cx16 sahf popcnt sse3 sse4.1 sse4.2 ssse3",
    "x86-64-v3": "avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}


def levels() -> tuple[str, ...]:
    """The levels of this machine's architecture, the lowest first."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return tuple(_X86_64)
    return ("aarch64",) if machine in ("aarch64", "arm64") else ()


def host_levels() -> tuple[str, ...]:
    """The levels of this CPU, the highest first."""
    reached: list[str] = []
    features = binding.get_host_cpu_features()
    for level in levels():
        if not all(features.get(name) for name in _X86_64.get(level, "").split()):
            break
        reached.insert(0, level)
    return tuple(reached)


def numba_environment(level: str) -> dict[str, str]:
    """Variables of a process in which Numba compiles for a level."""
    name = "generic" if level == "aarch64" else level
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
