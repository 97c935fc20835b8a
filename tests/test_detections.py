"""Sigma rules: read from folders and archives, matched by their ids, listed if they cannot be."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app

WHOAMI = """
title: Who am I
id: 7ef7
level: high
tags: [attack.discovery, attack.t1033]
detection:
  selection: {Image|endswith: '\\whoami.exe'}
  filter: {User|contains: SYSTEM}
  condition: selection and not filter
"""
KEYWORDS = "title: Words\nid: 0001\ndetection: {keywords: [mimikatz], condition: keywords}\n"
CORRELATION = "title: Many\nid: 0002\ncorrelation: {type: event_count}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules/windows").mkdir(parents=True)
    (tmp_path / "rules/windows/whoami.yml").write_text(WHOAMI)
    (tmp_path / "rules/words.yaml").write_text(KEYWORDS + "---\n" + CORRELATION)
    (tmp_path / "rules/broken.yml").write_text("title: [")
    (tmp_path / "rules/README.md").write_text("no rule")
    (tmp_path / "rules/other.yml").write_text("a: 1")
    return tmp_path / "rules"


def test_rules_are_matched_by_their_ids_and_the_others_are_listed(folder: Path) -> None:
    found = my.sigma(folder)
    index = found.index()
    assert index.match_one({"Image": r"C:\Windows\System32\WHOAMI.exe", "User": "ada"}) == ["7ef7"]
    assert index.match_one({"Image": r"C:\whoami.exe", "User": "NT AUTHORITY\\SYSTEM"}) == []
    left = {rule.id: rule.reason.partition(":")[0] for rule in found.left}
    assert left == {"1": "keywords", "2": "correlation of rules", "broken.yml": "no YAML"}
    [row] = found.table().to_pylist()
    assert (row["title"], row["level"], row["file"]) == ("Who am I", "high", "windows/whoami.yml")
    assert row["tags"] == ["attack.discovery", "attack.t1033"]


def test_an_archive_and_one_file_are_read_like_a_folder(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "rules.tar.gz", "w:gz") as archive:
        archive.add(folder, "rules")
    assert [rule.id for rule in my.sigma(tmp_path / "rules.tar.gz").rules] == ["7ef7"]
    assert [rule.id for rule in my.sigma(folder / "windows/whoami.yml").rules] == ["7ef7"]
    for wrong, words in (
        (tmp_path / "nowhere", "does not exist"),
        (folder / "README.md", "of rules: file could not be opened successfully$"),
    ):
        with pytest.raises(my.UsageError, match=words):
            my.sigma(wrong)


def test_the_command_line_builds_from_rules(folder: Path, tmp_path: Path) -> None:
    out, bad = tmp_path / "detect.index", tmp_path / "left.jsonl"
    done = CliRunner().invoke(
        app, ["build", "sigma", str(folder), "-o", str(out), "--bad", str(bad)]
    )
    assert done.exit_code == 0, done.output
    assert "1 rules" in done.output
    assert "3 rules are not supported" in done.output
    assert my.open(out).match_one({"Image": "\\whoami.exe"}) == ["7ef7"]
    assert pq.read_table(out / "rules.parquet")["title"].to_pylist() == ["Who am I"]
    assert len([json.loads(line) for line in bad.read_text().splitlines()]) == 3


def test_rules_of_one_id_or_of_none_stay_apart(tmp_path: Path) -> None:
    one, other = (
        f"title: {title}\ndetection: {{s: {{a: {title}}}, condition: s}}\n" for title in ("x", "y")
    )
    (tmp_path / "none.yml").write_text(f"{one}---\n{other}")
    for number in (1, 2):
        (tmp_path / f"same{number}.yml").write_text(f"id: same\n{one}")
    found = my.sigma(tmp_path)
    index = found.index()
    assert sorted(index.match_one({"a": "x"})) == ["none.yml", "same"]
    assert index.match_one({"a": "y"}) == ["none.yml#1"]
    assert [left.reason for left in found.left] == ["its id is that of a rule in same1.yml"]


def test_collections_with_actions_and_filters_are_left(tmp_path: Path) -> None:
    (tmp_path / "global.yml").write_text(
        "action: global\ndetection: {s: {a: 1}, condition: s}\n---\ndetection: {t: {b: 1}}\n"
    )
    (tmp_path / "filter.yml").write_text("title: F\nid: f\nfilter: {rules: [x], s: {a: 1}}\n")
    found = my.sigma(tmp_path)
    assert found.rules == ()
    reasons = [left.reason for left in found.left]
    assert sorted(reasons) == [
        "collection with actions",
        "collection with actions",
        "filter of rules",
    ]


def test_rules_for_logs_of_other_products_can_be_left_out(tmp_path: Path) -> None:
    for name, source in (("w", "{product: windows, service: security}"), ("z", "{product: zeek}"),
                         ("p", "{category: proxy}"), ("n", "null")):  # fmt: skip
        text = f"id: {name}\nlogsource: {source}\ndetection: {{s: {{a: 1}}, condition: s}}\n"
        (tmp_path / f"{name}.yml").write_text(text)
    assert {rule.id for rule in my.sigma(tmp_path).rules} == set("wzpn")
    found = my.sigma(tmp_path, product="Windows")
    assert {rule.id for rule in found.rules} == set("wpn")
    [row] = [row for row in found.table().to_pylist() if row["id"] == "w"]
    assert (row["product"], row["category"], row["service"]) == ("windows", "", "security")
    out = tmp_path / "out.index"
    with pytest.raises(
        my.UsageError, match="no rule is for the product 'windos'; found: windows, zeek"
    ):
        my.sigma(tmp_path, product="windos")
    words = ["build", "sigma", str(tmp_path), "-o", str(out), "--product", "zeek"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert sorted(key for key, _ in my.open(out).items()) == ["n", "p", "z"]


def test_the_table_of_rules_has_those_of_earlier_versions(tmp_path: Path) -> None:
    def save(*names: str) -> dict[str, bool]:
        folder = tmp_path / "-".join(names)
        folder.mkdir()
        for name in names:
            (folder / f"{name}.yml").write_text(
                f"id: {name}\ndetection: {{s: {{a: 1}}, condition: s}}\n"
            )
        my.sigma(folder).save(tmp_path / "a.index")
        rows = pq.read_table(tmp_path / "a.index/rules.parquet").to_pylist()
        return {row["id"]: row["current"] for row in rows}

    assert save("a", "b") == {"a": True, "b": True}
    assert save("b", "c") == {"a": False, "b": True, "c": True}
    assert save("a") == {"a": True, "b": False, "c": False}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sigma", "RULES", "--algorithm", "sff"], "--algorithm is not for sigma"),
        (["sigma", "RULES", "--placeholder", "x"], "expected NAME=value"),
        (["tags", "RULES", "--product", "windows"], "--product is not for tags"),
        (["sigma", "RULES", "--bad", "nowhere/left.jsonl"], "No such file"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, words: list[str], told: str
) -> None:
    given = [str(folder) if word == "RULES" else word for word in words]
    done = CliRunner().invoke(app, ["build", *given, "-o", str(tmp_path / "a.index")])
    assert done.exit_code != 0
    assert told in done.output + repr(done.exception)
    assert not (tmp_path / "a.index").exists()


UNREAD = {
    "typo.yml": ("title: t\ndetections: {}", "no detection"),
    "list.yml": (f"- title: t\n  {KEYWORDS}".splitlines()[0], "a list; expected one rule in each document"),
    "UP.YML": ("title: [", "no YAML"),
    "twice.yml": (WHOAMI.replace("  filter", "  selection"), "the key 'selection' is there twice"),
    "fields.yml": ("detection: {s: {a|re: '1', a|re: '2'}, condition: s}", "the key 'a|re' is there twice"),
    "null.yml": ("detection: {s: {null: x}, condition: s}", "name of a field that is no text"),
}  # fmt: skip


def test_every_rule_is_read_or_listed_with_its_reason(tmp_path: Path) -> None:
    for file, (text, _) in UNREAD.items():
        (tmp_path / file).write_text(text)
    found = my.sigma(tmp_path)
    assert found.rules == ()
    reasons = {rule.file: rule.reason for rule in found.left}
    assert set(reasons) == set(UNREAD)
    for file, (_, reason) in UNREAD.items():
        assert reason in reasons[file]


@pytest.mark.parametrize(("generates", "left"), [("", ["1", "3"]), ("generate: true, ", ["3"])])
def test_steps_of_a_correlation_say_nothing_alone(
    tmp_path: Path, generates: str, left: list[str]
) -> None:
    rule = "title: {}\nname: {}\nid: {}\ndetection: {{s: {{EventID: 4625}}, condition: s}}\n---\n"
    many = f"title: c\nid: 3\ncorrelation: {{{generates}type: event_count, rules: [logon]}}\n"
    text = rule.format("a", "logon", 1) + rule.format("b", "other", 2) + many
    (tmp_path / "rules.yml").write_text(text)
    found = my.sigma(tmp_path)
    assert [rule.id for rule in found.left] == left
    assert "2" in {rule.id for rule in found.rules}


def test_an_archive_with_a_link_to_nowhere_is_read(folder: Path, tmp_path: Path) -> None:
    (folder / "windows/gone.yml").symlink_to("nowhere.yml")
    with tarfile.open(tmp_path / "rules.tar.gz", "w:gz") as archive:
        archive.add(folder, "rules")
    assert [rule.id for rule in my.sigma(tmp_path / "rules.tar.gz").rules] == ["7ef7"]


ODD = [
    "detection: {s: {a: 1}, condition: 1}", "detection: {s: {a: 1}, condition: true}",
    "detection: {1: {a: 1}, condition: 1 of them}", "detection: {s: {a|lt: 2020-01-01}, condition: s}",
    "detection: {s: {a: 2020-01-01}, condition: s}", "detection: {s: {a: .nan}, condition: s}",
    "detection: {s: {a|cidr: 10.0.0.0/99}, condition: s}", "detection: {s: {a: {b: 1}}, condition: s}",
    "detection: {s: {a|contains|all: []}, condition: s}", "detection: 5", "detection: {s: {}, condition: s}",
    "detection: {s: {a: 99999999999999999999999999}, condition: s}", "detection: {s: {a: [[1, 2], 3]}, condition: s}",
    f"detection: {{s: {{a: 1}}, condition: '{'not ' * 3000}s'}}", "tags: 5\nid:\ndetection: {s: {a: 1}, condition: s}",
]  # fmt: skip


def test_odd_rules_are_listed_and_spoil_nothing(folder: Path) -> None:
    for number, text in enumerate(ODD):
        (folder / f"odd{number}.yml").write_text(f"title: odd\n{text}\n")
    found = my.sigma(folder, placeholders={"A": "%A%"})
    assert found.index().match_one({"Image": "\\whoami.exe"}) == ["7ef7"]
    assert len(found.rules) + len(found.left) == 4 + len(ODD)
    assert len(found.left) >= 3 + len(ODD) - 2
    (folder / "windows/cut.tar.gz").write_bytes(b"\x1f\x8b\x08\0cut")
    for wrong in ("nowhere.yml", "windows/cut.tar.gz"):
        with pytest.raises(my.UsageError):
            my.sigma(folder / wrong)
