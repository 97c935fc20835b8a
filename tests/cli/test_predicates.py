"""Predicates on the command line: rules and events in files of every format."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app

runner = CliRunner()
RULES = [
    {"predicate": 'area = "north" and temp > 30', "key": "ada"},
    {"predicate": {"wind": [{"numeric": [">", 20]}]}, "key": "bob"},
    {"predicate": "exists wind", "key": "eve"},
]
EVENTS = [
    {"id": "e1", "area": "north", "temp": 31},
    {"id": "e2", "area": "north", "temp": 30, "wind": 20},
    {"id": "e3", "wind": 21.5},
]
PAIRS = [("e1", "ada"), ("e2", "eve"), ("e3", "bob"), ("e3", "eve")]


def run(*arguments, input=None):
    return runner.invoke(app, [str(argument) for argument in arguments], input=input)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def pairs(done):
    assert done.exit_code == 0, done.exception
    return sorted(tuple(json.loads(line).values()) for line in done.stdout.splitlines())


@pytest.fixture
def weather(tmp_path):
    (tmp_path / "rules.jsonl").write_text(lines(RULES))
    path = tmp_path / "weather.index"
    assert run("build", "predicates", tmp_path / "rules.jsonl", "-o", path).exit_code == 0
    return path


def test_events_are_whole_lines_of_json(weather):
    assert pairs(run("match", weather, input=lines(EVENTS))) == PAIRS


def test_events_can_be_a_field_of_the_lines(weather):
    wrapped = [{"id": event["id"], "body": event} for event in EVENTS]
    assert pairs(run("match", weather, "--column", "body", input=lines(wrapped))) == PAIRS


def test_events_are_the_rows_of_a_table(weather, tmp_path):
    pq.write_table(pa.Table.from_pylist(EVENTS, pa.schema([
        ("id", pa.string()), ("area", pa.string()), ("temp", pa.int64()), ("wind", pa.float64()),
    ])), tmp_path / "events.parquet")  # fmt: skip
    found = pairs(run("match", weather, tmp_path / "events.parquet"))
    assert [pair for pair in found if pair[1] != "eve"] == [("e1", "ada"), ("e3", "bob")]


def test_rules_and_events_come_from_csv(tmp_path):
    (tmp_path / "rules.csv").write_text(
        'key,predicate\n7,"temp > 30 and area = ""north"""\n8,wind > 20\n'
    )
    (tmp_path / "events.csv").write_text("area,temp,wind\nnorth,31,5\nsouth,35,21\n")
    index = tmp_path / "a.index"
    assert run("build", "predicates", tmp_path / "rules.csv", "-o", index).exit_code == 0
    assert pairs(run("match", index, tmp_path / "events.csv")) == [(0, 7), (1, 8)]
    out = tmp_path / "pairs.csv"
    assert run("match", index, tmp_path / "events.csv", "-o", out).exit_code == 0
    assert out.read_text().splitlines()[1:] == ["0,7", "1,8"]


def test_a_rule_that_cannot_be_read_names_its_line(tmp_path):
    (tmp_path / "rules.jsonl").write_text(lines([RULES[0], {"predicate": "temp >", "key": 1}]))
    arguments = ["build", "predicates", str(tmp_path / "rules.jsonl"), "-o", str(tmp_path / "x")]
    with pytest.raises(my.ParseError, match="line 2"):
        runner.invoke(app, arguments, catch_exceptions=False)
    (tmp_path / "rules.jsonl").write_text(lines([{"rule": "temp > 1", "key": 1}]))
    with pytest.raises(my.ParseError, match="line 1 has no field 'predicate'; found: rule, key"):
        runner.invoke(app, arguments, catch_exceptions=False)


def test_bad_events_of_predicates_go_aside_with_the_reason(weather, tmp_path):
    bad = tmp_path / "bad.jsonl"
    done = run("match", weather, "--bad", bad, input='{"wind": 30}\n[1]\nnonsense\n7\n')
    assert [key for _, key in pairs(done)] == ["bob", "eve"]
    assert [json.loads(line)["line"] for line in bad.read_text().splitlines()] == [2, 3, 4]


def test_explain_reads_the_event_as_json(weather):
    shown = run("explain", weather, '{"area": "north", "temp": 12}', "--key", "ada").stdout
    assert "temp" in shown
    assert "12" in shown


def test_interval_algorithms_refuse_other_rules_before_anything_is_written(tmp_path):
    (tmp_path / "rules.jsonl").write_text(lines([{"predicate": "x = 1 or y = 2", "key": 1}]))
    arguments = ["build", "predicates", str(tmp_path / "rules.jsonl"), "-o", str(tmp_path / "x"),
                 "--algorithm", "hem"]  # fmt: skip
    with pytest.raises(my.UsageError, match="hem"):
        runner.invoke(app, arguments, catch_exceptions=False)
    assert not (tmp_path / "x").exists()
