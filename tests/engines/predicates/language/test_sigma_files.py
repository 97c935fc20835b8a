"""Files of Sigma rules that stand for more than a rule needs: left with a reason, before they are built."""

from __future__ import annotations

from pathlib import Path

import pytest

import matchyard as my

RULE = "id: bad\ndetection:\n  s: {{{}}}\n  condition: {}\n"
GOOD = "id: good\ndetection: {s: {a: 1}, condition: s}\n"
LAUGHS = "x0: &x0 [lol]\n" + "".join(
    f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 7)
)
MAPS = "x0: &x0 {f0: a}\n" + "".join(
    f"x{n}: &x{n} {{<<: [{','.join([f'*x{n - 1}'] * 9)}], f{n}: a}}\n" for n in range(1, 7)
)
WRITTEN_OUT = "too large: more than 1,048,576 characters with aliases written out"
TOO_LONG = "a predicate of more than 4,194,304 characters"


def rule(fields: str, condition: str = "s") -> str:
    return RULE.format(fields, condition)


HOSTILE = {
    "title": (f"{LAUGHS}title: *x6\n{rule('f: a')}", WRITTEN_OUT),
    "tags": (f"{LAUGHS}tags: *x6\n{rule('f: a')}", WRITTEN_OUT),
    "value": (f"{LAUGHS}{rule('f: *x6')}", WRITTEN_OUT),
    "key": (f"{LAUGHS}? *x6\n: b\n{rule('f: a')}", WRITTEN_OUT),
    "utf-16": (f"{LAUGHS}{rule('f: *x6')}".encode("utf-16"), WRITTEN_OUT),
    "merge": (f"{MAPS}{rule('<<: *x6')}", WRITTEN_OUT),
    "a merge of one map": (f"x: &x {{y: {'y' * 9000}}}\n{rule('<<: [' + '*x,' * 200 + ']')}", WRITTEN_OUT),
    "within itself": (f"title: &a [*a]\n{rule('f: a')}", WRITTEN_OUT),
    "many values": (rule(f"f: [{'a,' * 100_000}]"), WRITTEN_OUT),
    "second document": (f"{GOOD}---\n{LAUGHS}{rule('f: *x6')}", WRITTEN_OUT),
    "text": (rule(f"f: {'a' * 65_537}"), "too large: a text of more than 65,536 characters"),
    "document": (f"---\n{rule('f: a')}---\n{rule('f: a')}#{' ' * (1 << 20)}", "too large: a document of more than 1,048,576 bytes"),
    "file": (f"{rule('f: a')}{'---' + chr(10) * 4000}" * 5000, "too large: more than 16,777,216 bytes"),
    "depth": (f"title: {'[' * 9000}{']' * 9000}\n{rule('f: a')}", "too large: a value within 100 others"),
    "directives": ("".join(f"%TAG !a{n}! b\n" for n in range(200)) + f"---\n{rule('f: a')}", "too large: more than 100 directives"),
    "digits": (f"{rule('f: a').replace('bad', '0x' + 'f' * 5000)}", "no YAML: Exceeds the limit"),
    "dashes": (rule("f|windash: [" + ",".join(f"' -a{n} -b -c'" for n in range(9000)) + "]"), TOO_LONG),
    "placeholders": (rule(f"f|expand: '{'%p%' * 40}'"), TOO_LONG),
    "selections": (rule(f"f: [{','.join(map(str, range(9000)))}]", " or ".join(["s"] * 5000)), TOO_LONG),
    "patterns": ("id: bad\ndetection: {" + "".join(f"s{n}: {{a: 1}}, " for n in range(9000)) + "condition: "
                 + " or ".join(["1 of s1"] * 900) + "}", TOO_LONG),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_rule_that_stands_for_too_much_is_left_and_others_load(tmp_path: Path, name: str) -> None:
    text, reason = HOSTILE[name]
    (tmp_path / "bad.yml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "good.yml").write_text(GOOD)
    found = my.sigma(tmp_path, placeholders={"p": ["x", "y"]})
    assert [rule.id for rule in found.rules] == ["good"]
    assert {left.reason[: len(reason)] for left in found.left} == {reason}
    assert {left.file for left in found.left} == {"bad.yml"}


def test_what_is_within_the_limits_is_read(tmp_path: Path) -> None:
    texts = {
        "aliases": f"x: &x [a, b]\nm: &m {{g: *x}}\n{rule('f: *x, <<: *m')}",
        "text": f"title: {'é' * 65_536}\n{rule('f: a')}",
        "placeholders": rule("f|expand: '%p%%p%%none%'"),
        "deep title": f"title: {'[' * 4000}{']' * 4000}\n{rule('f: a')}",
        "wildcards": rule("f: '" + "a*" * 30_000 + "'"),
        "documents": "".join(f"---\n{rule('f: a')}#{' ' * 500_000}\n" for _ in range(4)),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yml").write_text(text.replace("bad", name))
    found = my.sigma(tmp_path, placeholders={"p": ["x", "y"], "none": []})
    assert {rule.id for rule in found.rules} == set(texts) - {"placeholders"}
    assert [left.reason for left in found.left if left.id == "placeholders"] == ["empty list"]
    [aliases] = [rule for rule in found.rules if rule.id == "aliases"]
    assert aliases.text.count("in {") == 2


def test_placeholders_stand_for_every_combination(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(rule("f|expand: '1%p%2%q%3'"))
    index = my.sigma(tmp_path, placeholders={"p": ["x", "y"], "q": ["%p%", "v"]}).index()
    for value in ("1x2%p%3", "1y2%p%3", "1x2v3", "1y2v3"):
        assert index.match_one({"f": value}) == ["bad"]
    assert index.match_one({"f": "1x2x3"}) == []
