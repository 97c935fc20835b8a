"""Build a wheel with the machine code of all kernels, for each level of CPUs that this machine has.

    python release/wheels.py [FOLDER]      the wheel goes to FOLDER, by default to dist

Each level is compiled in a process of its own, whose Numba compiles for that level alone. A wheel is
for the running Python, and for the installed version of Numba: with another version the kernels are
compiled when they are first called, as in a wheel without machine code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def build(folder: Path) -> None:
    """Compile for all levels, then build the wheel."""
    from matchyard.kernels.compiler.levels import host_levels, levels, numba_environment

    for level in set(levels()) - set(host_levels()):
        print(f"{level}: left out, this CPU cannot run it")
    with tempfile.TemporaryDirectory() as compiled:
        for level in host_levels():
            environment = {**os.environ, **numba_environment(level)}
            command = [sys.executable, __file__, "--compile", level, f"{compiled}/{level}"]
            subprocess.run(command, env=environment, check=True)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
        environment = {**os.environ, "MATCHYARD_COMPILED": compiled}
        subprocess.run(
            [*command, "--outdir", str(folder)], cwd=CHECKOUT, env=environment, check=True
        )


def compile_all(level: str, folder: Path) -> None:
    """Compile every kernel that engines and algorithms need into a folder."""
    import matchyard as my
    from matchyard.kernels.compiler.code_cache import Target
    from matchyard.warming import use_once

    shutil.rmtree(folder, ignore_errors=True)
    Target.folder, Target.level = folder, level
    for engine in my.ENGINES:
        for algorithm in my.algorithms(engine, "cpu"):
            use_once(engine, algorithm)
    files = list(folder.iterdir())
    size = sum(file.stat().st_size for file in files) / 1e6
    print(f"{level}: {len(files)} kernels, {size:.1f} MB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        compile_all(sys.argv[2], Path(sys.argv[3]))
    else:
        build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve())
