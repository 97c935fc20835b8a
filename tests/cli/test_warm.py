"""`matchyard warm`: what it compiles is all that the examples need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app
from matchyard.cli.warm import SAMPLES, use_once
from matchyard.kernels.compiler import n_compiled

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


def test_a_senseless_choice_is_refused() -> None:
    assert CliRunner().invoke(app, ["warm", "--algorithms", "some"]).exit_code != 0
    assert CliRunner().invoke(app, ["warm", "nonsense"]).exit_code != 0
