"""Every module under `benchmarks` starts as `python -m` starts it; programs show their help and measure nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# One process for all modules, since most of its time goes into imports that they share.
START = """
import io, json, resource, runpy, sys, warnings
from contextlib import redirect_stdout
resource.setrlimit(resource.RLIMIT_CPU, (90, 90))  # of a program that starts to measure
warnings.simplefilter("ignore")  # a module that another one has imported is run again
for name in sys.argv[1:]:
    sys.argv, said, status = [name, "--help"], io.StringIO(), None
    try:
        with redirect_stdout(said):
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    except BaseException as error:
        status = f"{type(error).__name__}: {error}"
    print(json.dumps([name, status, said.getvalue()]), flush=True)
"""


def test_every_benchmark_starts_and_shows_its_help() -> None:
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    programs, modules = set(), []
    for file in files:
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        modules.append(name.removesuffix(".__init__"))
        if "__main__" in file.read_text():
            programs.add(name)
    modules = [name for name in modules if name not in ("benchmarks", "benchmarks.shared")]
    assert len(modules) > 80, f"{len(modules)} modules"
    assert len(programs) > 17, f"{len(programs)} programs"
    command = [sys.executable, "-c", START, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in answers] == modules, f"the last one measures: {done.stderr}"
    for name, status, said in answers:
        expected = (0, "usage: ") if name in programs else (None, "")
        assert (status, said[:7]) == expected, name
