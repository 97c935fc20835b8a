"""What docs/twigs.md says is so: its code runs, its tables are what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import matchyard as my
from matchyard.engine import find_algorithm, find_engine
from matchyard.engines.twigs.encoder import Options
from matchyard.engines.twigs.language import TwigError, format, parse

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "twigs.md").read_text()


def cells(head: str) -> list[list[str]]:
    """The rows of the table that starts so, without the backticks around a cell."""
    _, found, text = PAGE.partition(f"\n| {head} |")
    assert found, f"no table {head}"
    lines = text.split("\n\n")[0].rstrip().split("\n")[2:]
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
    return [[plain(cell.strip()) for cell in row] for row in rows]


def plain(cell: str) -> str:
    found = re.fullmatch(r"`([^`]*)`", cell)
    return (found[1] if found else cell).replace("\\|", "|")


def test_the_code_on_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/twigs.md", "exec"), {"__name__": "page"})


@pytest.mark.parametrize(("text", "meaning"), cells("text | holds for"))
def test_every_form_of_the_language_is_one(text: str, meaning: str) -> None:
    assert parse(format(parse(text))) == parse(text)
    same = re.match(r"as `([^`]+)`", meaning)
    assert same is None or parse(same[1]) == parse(text)


@pytest.mark.parametrize(("text", "part"), cells("text | part"))
def test_what_is_no_twig_is_refused_by_its_part(text: str, part: str) -> None:
    with pytest.raises(TwigError) as caught:
        parse(text)
    assert caught.value.part == part


def test_the_options_are_those_of_the_encoder() -> None:
    listed = {name: value.strip('"') for name, value, _ in cells("option | default | meaning")}
    assert listed == {name: str(value) for name, value in Options()._asdict().items()}


@pytest.mark.parametrize("parser", ["scan", "expat"])
def test_malformed_documents_are_told_as_on_the_page(parser: str) -> None:
    index = my.TwigIndex(options={"parser": parser}).add("//a", 1).consolidate()
    for document, message in cells("document | what is said"):
        with pytest.raises(my.ParseError) as caught:
            index.match([document])
        assert str(caught.value).startswith(message)


def test_the_algorithms_and_their_options_are_listed() -> None:
    listed = {
        name: re.findall(r"\w+", options)
        for name, _, options in cells("name | what it does | options")
    }
    assert listed == {
        name: list(find_algorithm(find_engine("twigs"), name).Options._field_defaults)
        for name in find_engine("twigs").algorithms
    }


def test_the_example_reports_documents_and_records(tmp_path: Path) -> None:
    Path(tmp_path, "twigs.txt").write_text("old\t//book[@year < 2000]\nany\t//book\n")
    Path(tmp_path, "a.xml").write_text('<shop><book year="1984"/><book year="2012"/></shop>')
    Path(tmp_path, "b.xml").write_text("<shop>")
    command = [sys.executable, str(ROOT / "examples" / "xml_feeds.py"), "twigs.txt"]

    def told(*more: str) -> list[str]:
        done = subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return (done.stdout + done.stderr).splitlines()

    assert told("a.xml", "b.xml") == [
        "a.xml: any, old",
        "b.xml: document 0 at line 1, column 7: no element found",
    ]
    assert told("a.xml", "--record", "book") == ["a.xml, book 1: any, old", "a.xml, book 2: any"]
