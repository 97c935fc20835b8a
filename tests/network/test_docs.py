"""The page about networks: its code runs, and what it shows is what comes out."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "network.md"


def test_the_code_in_the_page_runs(capsys: object) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    namespace: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number + 1}", "exec"), namespace)
    assert namespace["again"][0].packet.payload == b"the first block"  # type: ignore[index]
    printed = capsys.readouterr().out  # type: ignore[attr-defined]
    shown = text.partition('key="ada"))\n```\n\n```\n')[2].partition("```")[0]
    assert shown
    assert shown in printed
