"""The pages about predicates are true: their code runs, and their tables are what the code does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engine import find_algorithm, find_engine
from matchyard.engines.predicates.language import parse
from matchyard.engines.predicates.oracle import is_match
from tests.engines.predicates.language import test_messages, test_patterns_json

ROOT = Path(__file__).parents[3]
PAGES = ("predicates.md", "predicates-meaning.md", "predicates-internals.md")
REFERENCE, MEANING, _ = ((ROOT / "docs" / name).read_text() for name in PAGES)
ALGORITHMS = find_engine("predicates").algorithms
NAMES = {"nan": float("nan"), "inf": float("inf"), "field": my.field}


def rows(heading: str, page: str = REFERENCE) -> list[list[str]]:
    """The cells of the first table after a heading, without the head of the table."""
    _, separator, text = page.partition(f"{heading}\n")
    assert separator, f"no heading {heading}"
    lines = text[text.index("\n|") + 1 :].split("\n\n")[0].strip().split("\n")
    return [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines[2:]]


def cells(heading: str, page: str = REFERENCE) -> list[list[str]]:
    """The same cells without backticks around them."""
    return [[plain(cell.strip()) for cell in row] for row in rows(heading, page)]


def plain(cell: str) -> str:
    found = re.fullmatch(r"`` (.*) ``|`(.*)`", cell)
    return (found[1] or found[2] if found else cell).replace("\\|", "|")


def short(text: str) -> str:
    """What was given, cut where it is long."""
    return code(text if len(text) <= 100 else f"{text[:24]}…")


def code(text: str) -> str:
    """Text between backticks, as a cell of a table."""
    text = text.encode(errors="backslashreplace").decode().replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def written(value: Any) -> str:
    """A pattern or event as JSON, where it is any."""
    if isinstance(value, str):
        return value
    is_json = all(isinstance(key, str) for key in value)
    return json.dumps(value) if is_json else repr(value)


def message(make: Any, *arguments: Any) -> str:
    with pytest.raises(my.ParseError) as caught:
        make(*arguments)
    return str(caught.value)


def operator_rows() -> list[str]:
    """The table of EventBridge's operators, as its tests have it."""
    return [
        f"| {name} | {code(written(rule))} | {code(written(matching[0]))} | {code(written(others[0]))} |"
        for name, rule, matching, others in test_patterns_json.OPERATORS
    ]


def text_rows() -> list[str]:
    """The table of malformed texts, with what follows "not a predicate: "."""
    found = []
    for text, *_ in test_messages.MALFORMED:
        first = message(parse, text).split("\n")[0]
        found.append(
            f"| {short(text) if text else 'nothing'} | {code(first.removeprefix('not a predicate: '))} |"
        )
    return found


def pattern_rows() -> list[str]:
    """The table of malformed patterns, with what stands between "not a pattern: " and the example."""
    found = []
    for rule, _ in test_patterns_json.MALFORMED:
        said = message(parse, rule).rsplit("; for example", 1)[0]
        found.append(f"| {code(written(rule))} | {code(said.removeprefix('not a pattern: '))} |")
    return found


def index_of(*texts: str) -> my.PredicateIndex:
    index = my.PredicateIndex()
    for key, text in enumerate(texts):
        index.add(text, key)
    return index.consolidate()


@pytest.mark.parametrize("name", PAGES)
def test_the_code_on_the_pages_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == page.count("```python")
    namespace: dict[str, object] = {"__name__": "docs"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{name}, block {number + 1}", "exec"), namespace)


def test_every_operator_is_the_same_in_all_three_forms() -> None:
    for text, expression, pattern, _ in cells("### Operators"):
        predicate = parse(text)
        assert parse(eval(expression, {}, NAMES)) == predicate, text
        assert parse(pattern) == predicate, text


def test_what_the_page_says_about_meaning_is_so() -> None:
    for text, event, answer, _ in cells("## Examples", MEANING):
        value = eval(event, {}, NAMES | {"null": None, "true": True, "false": False})
        assert is_match(parse(text), value) is (answer == "yes"), (text, event)
        assert index_of(text).match([value]).to_lists() == [[0] if answer == "yes" else []]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("### EventBridge's operators", operator_rows),
        ("### Malformed text", text_rows),
        ("### Malformed patterns", pattern_rows),
    ],
    ids=["operators", "text", "patterns"],
)
def test_the_tables_are_what_the_tests_have(heading: str, expected: Any) -> None:
    found = [f"|{'|'.join(row)}|" for row in rows(heading)]
    assert found == expected()


def test_malformed_events_get_the_messages_on_the_page() -> None:
    index = index_of("exists x")
    for event, said in cells("### Malformed events"):
        value = eval(event, {}, NAMES)
        assert message(index.match, [value]) == message(index.explain, value, 0) == said


def test_malformed_columns_get_the_messages_on_the_page() -> None:
    example = "; expected constraints, e.g. [{'name': 'temp', 'op': '>', 'value': 30}]"
    for constraint, said in cells("### Malformed columns"):
        column = pa.array([[eval(constraint, {}, NAMES)]])
        assert message(my.PredicateIndex().add_many, column, [1]).removesuffix(example) == said


def test_other_malformed_input_gets_the_messages_on_the_page() -> None:
    for value, said in cells("### Neither text nor pattern"):
        assert message(parse, eval(value, {}, NAMES)) == said


def test_every_algorithm_is_on_the_page_with_what_it_takes() -> None:
    found = {row[0]: row[1] for row in cells("## Algorithms")}
    assert tuple(found) == ALGORITHMS
    for name, takes in found.items():
        module: Any = find_algorithm(find_engine("predicates"), name)
        assert takes == {"predicates": "everything", "intervals": "intervals"}[module.SUPPORTS]


def test_every_option_is_on_the_page_with_its_default() -> None:
    found: dict[str, dict[str, Any]] = {name: {} for name in ALGORITHMS}
    for option, default, algorithms, _ in cells("## Options and limits"):
        for name in ALGORITHMS if algorithms == "all" else re.findall(r"\w+", algorithms):
            found[name][option] = json.loads(default)
    assert found == {name: my.PredicateIndex(name).options for name in ALGORITHMS}


def test_every_parameter_of_a_workload_is_on_its_page() -> None:
    page = (ROOT / "docs" / "workloads.md").read_text()
    found: dict[str, list[str]] = {}
    name = ""
    for workload, parameters, *_ in rows("on the command line.", page):
        name = workload.strip() or name
        found.setdefault(name, []).extend(re.findall(r"\w+", parameters))
    models = find_engine("predicates").workload.MODELS
    for names, parameters in found.items():
        for name in re.findall(r"[\w-]+", names):
            assert parameters == [one for one in models[name]._fields if one != "ranges"]
    assert "`ranges`" not in page  # it tells json-eq from json-range


def test_the_example_writes_alerts_and_names_lines_that_are_no_events(tmp_path: Path) -> None:
    rules = [
        {"key": "hot", "rule": {"area": ["north"], "temp": [{"numeric": [">", 30]}]}},
        {"key": "storm", "rule": "wind > 20"},
    ]
    events = [
        '{"area": "north", "temp": 31, "wind": 21}',
        "nonsense",
        '{"temp": 31}',
        '{"wind": 25}',
    ]
    (tmp_path / "rules.jsonl").write_text("\n".join(map(json.dumps, rules)))
    command = [sys.executable, str(ROOT / "examples" / "json_alerts.py"), "rules.jsonl"]
    given = {"input": "\n".join(events), "cwd": tmp_path, "text": True, "capture_output": True}
    done = subprocess.run(command, check=True, **given)  # type: ignore[call-overload]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"alerts": ["hot", "storm"], "event": json.loads(events[0])},
        {"alerts": ["storm"], "event": {"wind": 25}},
    ]
    assert done.stderr.startswith("line 2: event 0 is not JSON at byte 0: expected an object")
