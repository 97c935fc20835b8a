"""`matchyard build` with subscriptions that cannot be read."""

import json

import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app

runner = CliRunner()


def test_bad_subscriptions_go_aside_with_the_reason_where_asked(tmp_path):
    rules, bad = tmp_path / "rules.jsonl", tmp_path / "bad.jsonl"
    rules.write_text(
        '{"predicate": "temp > 30", "key": 1}\n{"predicate": "temp >", "key": 2}\n'
        '{"key": 3}\nnonsense\n{"predicate": {"area": ["north"]}, "key": 4}\n'
    )
    with pytest.raises(my.ParseError, match="line 2"):
        runner.invoke(app, ["build", "predicates", str(rules), "-o", str(tmp_path / "a")],
                      catch_exceptions=False)  # fmt: skip
    done = runner.invoke(
        app,
        ["build", "predicates", str(rules), "-o", str(tmp_path / "a.index"), "--bad", str(bad)],
    )
    assert done.exit_code == 0
    assert sorted(key for key, _ in my.open(tmp_path / "a.index").items()) == [1, 4]
    asked = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [row["line"] for row in asked] == [2, 3, 4]
    assert "column" in asked[0]["reason"]
    assert asked[0]["subscription"] == {"predicate": "temp >", "key": 2}
