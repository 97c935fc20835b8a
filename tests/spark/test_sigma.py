"""Sigma rules on Spark: alerts with reasons, and the example."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import spark as ms

EXAMPLE = Path(__file__).parents[2] / "examples" / "sigma_alerts.py"
RULE = """
title: Who am I
id: 7ef7
level: high
detection: {selection: {Image|endswith: whoami.exe}, condition: selection}
"""


def run(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "rules", "events", "alerts"],
        cwd=folder, check=True, capture_output=True, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    return done.stdout.decode()


@pytest.mark.slow
def test_the_example_writes_each_alert_once_with_title_and_reason(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/whoami.yml").write_text(RULE)
    (tmp_path / "events").mkdir()
    events = [{"Image": "C:/whoami.exe", "n": 1}, {"Image": "C:/other.exe"}]
    (tmp_path / "events/0.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events) + "{\n")
    assert "1 rules, 0 not supported\n1 alerts, 1 bad lines" in run(tmp_path)
    (tmp_path / "events/1.jsonl").write_text(json.dumps({"Image": "whoami.exe"}) + "\n")
    run(tmp_path)
    rows = pq.read_table(tmp_path / "alerts/found").to_pylist()
    assert sorted(json.loads(row["event"])["Image"] for row in rows) == [
        "C:/whoami.exe",
        "whoami.exe",
    ]
    assert {(row["title"], row["level"]) for row in rows} == {("Who am I", "high")}
    assert all("Image" in row["why"] for row in rows)


def test_alerts_are_explained(spark, tmp_path):
    (tmp_path / "whoami.yml").write_text(RULE)
    my.sigma(tmp_path / "whoami.yml").save(tmp_path / "a.index")
    lines = [('{"Image": "WHOAMI.EXE"}',), ('{"Image": "other"}',), ("{",)]
    events = spark.createDataFrame(lines, "line string")
    found = ms.match(events, tmp_path / "a.index", event="line", id="line", bad="keep")
    rows = {
        row.line: row for row in ms.explain(found, tmp_path / "a.index", event="line").collect()
    }
    assert rows[lines[0][0]].why == my.open(tmp_path / "a.index").explain(lines[0][0], "7ef7")
    assert rows["{"].why is None
    with pytest.raises(my.UsageError, match="a column 'key' already"):
        ms.explain(found, tmp_path / "a.index", event="line", into="key")


def test_reasons_see_structs_and_maps_as_matching_does(spark, tmp_path):
    rules = spark.createDataFrame([("not exists y", "a")], "rule string, key string")
    ms.build(rules, tmp_path / "a.index", engine="predicates", subscription="rule")
    for event in ("named_struct('x', 1, 'y', cast(null as int))", "map('x', 1, 'y', null)"):
        events = spark.sql(f"SELECT 1 AS `i.d`, {event} AS `e.v`")
        found = ms.match(events, tmp_path / "a.index", event="`e.v`", id=["`i.d`", "`e.v`"])
        [row] = ms.explain(found, tmp_path / "a.index", event="e.v").collect()
        assert row.key == "a"
        assert not row.why.startswith("no match")
