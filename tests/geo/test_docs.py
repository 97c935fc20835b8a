"""The page about geography and the example: their code runs, and delivers."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "geo.md"


def test_the_code_in_the_page_runs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    namespace: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number + 1}", "exec"), namespace)
    sending, found, wanted = (namespace[name] for name in ("sending", "found", "wanted"))
    assert sending.work.deliveries == 10 * 100 * 7  # type: ignore[attr-defined]
    assert found.is_found.all()  # type: ignore[attr-defined]
    assert [3.0, 4.5] in found.positions.tolist()  # type: ignore[attr-defined]
    assert len(wanted.targets) == 2  # type: ignore[attr-defined]


def test_the_example_runs_with_ten_thousand_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "geo_names.py"))["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Mesh(10,000 nodes")
    n_look_ups, n_found = (int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", lines[3]))
    assert n_look_ups == n_found > 1_000
    sent = {line[:28].strip(): int(line[28:41].replace(",", "")) for line in lines[5:]}
    assert sent["tree through random points"] < sent["one message per target"] < sent["flooding"]
    assert sent["look-ups and answers"] > 0
