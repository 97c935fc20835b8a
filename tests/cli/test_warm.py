"""`matchyard warm` and `my.warm`: what they compile is all that the examples need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard import warming
from matchyard.cli import app
from matchyard.kernels.compiler import n_compiled
from matchyard.warming import SAMPLES, use_once

EXAMPLES = {"tags": "README.md", "predicates": "docs/predicates.md", "twigs": "docs/twigs.md"}


def first_example(page: str) -> str:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:1]
    return str(example)


@pytest.mark.parametrize("engine", my.ENGINES)
def test_after_warming_the_first_example_compiles_nothing(engine: str) -> None:
    result = CliRunner().invoke(app, ["warm", engine])
    assert result.exit_code == 0, result.output
    assert re.fullmatch(rf"{engine}: \d+ kernels compiled in [\d.]+ s\n", result.output)
    if engine == "tags":  # README's first example also has a predicate
        use_once("predicates", "auto")
    before = n_compiled()
    exec(first_example(EXAMPLES[engine]), {})
    assert n_compiled() == before


COUNTED = """
from matchyard.kernels.compiler import n_compiled
from matchyard.warming import SAMPLES, use_once
import matchyard as my
index = my.TagIndex().add({"jazz", "live"}, key="ada").consolidate()
assert index.match([{"jazz", "live", "oslo"}])[0] == ["ada"]
print(n_compiled())
"""


def test_what_one_process_warms_another_loads(tmp_path: Path) -> None:
    """Also if the other one has imported fewer modules, and calls kernels in another order."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for command, printed in (
        (["-m", "matchyard", "warm", "tags"], r"tags: [1-9]\d* kernels compiled in .*"),
        (["-m", "matchyard", "warm", "tags"], r"tags: 0 kernels compiled in .*"),
        (["-c", COUNTED], "0"),
        (["-c", "import matchyard as my; print(my.warm('tags'))"], "0"),
    ):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
        )
        assert re.fullmatch(printed, done.stdout.strip()), done.stdout


def test_every_engine_has_a_sample_that_its_algorithms_take() -> None:
    assert set(SAMPLES) == set(my.ENGINES)
    for engine, sample in SAMPLES.items():
        for algorithm in my.algorithms(engine, "cpu"):
            index = my.create(engine, algorithm)
            taken = 0
            for text in sample().subscriptions:
                try:
                    index.add(text, 1)
                    taken += 1
                except my.UsageError:
                    continue
            assert taken, (engine, algorithm)


def test_a_program_warms_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, str]] = []
    monkeypatch.setattr(warming, "use_once", lambda *given: used.append(given))
    my.warm("twigs", "predicates")
    my.warm()
    my.warm("tags", algorithms="all")
    firsts = {name: (name, my.algorithms(name, "cpu")[0]) for name in my.ENGINES}
    everyone = [("tags", name) for name in my.algorithms("tags", "cpu")]
    assert used == [firsts["twigs"], firsts["predicates"], *firsts.values(), *everyone]


def test_a_senseless_choice_is_refused() -> None:
    for words, options in ((["tags", "nonsense"], {}), (["tags"], {"algorithms": "some"})):
        before = n_compiled()
        with pytest.raises(my.UsageError):
            my.warm(*words, **options)
        assert n_compiled() == before
    assert CliRunner().invoke(app, ["warm", "--algorithms", "some"]).exit_code != 0
    assert CliRunner().invoke(app, ["warm", "nonsense"]).exit_code != 0
