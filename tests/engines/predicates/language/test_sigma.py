"""Sigma as predicates: the text of each rule, and what modifiers and values mean."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchyard as my
from matchyard.engines.predicates.language.finite_patterns import finite
from matchyard.engines.predicates.language.sigma import translate
from matchyard.engines.predicates.language.sigma_values import Unmapped


def rule(selection: dict[str, Any]) -> dict[str, Any]:
    return {"title": "t", "id": "1", "detection": {"s": selection, "condition": "s"}}


def index_of(tmp_path: Path, selection: dict[str, Any], **given: Any) -> my.PredicateIndex:
    (tmp_path / "rule.yml").write_text(json.dumps(rule(selection)))
    return my.sigma(tmp_path / "rule.yml", **given).index()


def test_placeholders_get_their_values(tmp_path: Path) -> None:
    selection = {"Host|expand": "%Hosts%-%Sites%"}
    assert my.sigma.__name__ == "sigma"
    (tmp_path / "rule.yml").write_text(json.dumps(rule(selection)))
    assert my.sigma(tmp_path / "rule.yml").left[0].reason == "placeholder %Hosts%"
    values = {"Hosts": ["a", "b"], "Sites": ["x"]}
    index = index_of(tmp_path, selection, placeholders=values)
    assert [index.match_one({"Host": host}) for host in ("a-x", "B-X", "c-x")] == [["1"], ["1"], []]


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("modifiers", ["base64offset|contains", "wide|base64offset|contains"])
def test_encoded_values_are_found_at_any_place(tmp_path: Path, before: str, modifiers: str) -> None:
    index = index_of(tmp_path, {f"c|{modifiers}": "IEX (New"})
    coding = "utf-16-le" if "wide" in modifiers else "utf-8"
    text = base64.b64encode(f"{before}IEX (New-Object x)".encode(coding)).decode()
    assert index.match_one({"c": f"powershell {text}"}) == ["1"]
    assert index.match_one({"c": f"powershell {text[::-1]}"}) == []


_PIECES = st.sampled_from(
    [
        "a",
        "b",
        "[ab]",
        r"\.",
        "a?",
        "(a|bc)",
        "b{1,2}",
        r"\d",
        "a+",
        ".*",
        "^",
        "$",
        r"\s",
        "[^a]",
        "x*",
    ]
)


@given(
    st.lists(_PIECES, min_size=1, max_size=4), st.lists(st.sampled_from("abcx.1 \n"), max_size=6)
)
def test_a_finite_pattern_finds_what_the_regular_expression_finds(
    pieces: list[str], text: list[str]
) -> None:
    pattern, value = "".join(pieces), "".join(text)
    found = finite(pattern)
    if found is None:
        return

    def is_at(one: str) -> bool:
        if found.at_start and found.at_end:
            return value == one
        if found.at_start or found.at_end:
            return value.startswith(one) if found.at_start else value.endswith(one)
        return one in value

    expected = re.search(pattern.replace("$", r"\Z"), value, re.ASCII) is not None
    assert any(map(is_at, found.texts)) == expected


FIELDS = [  # key and value of a selection, values of the field that match, and values that do not
    ("c|re", "UNC[12]", ["xUNC1"], ["unc1"]),
    ("c|re", "(?i)UNC[12]", ["xunc2"], ["UNC3"]),
    ("c|re|i", "UNC[12]", ["xunc2"], ["UNC3"]),
    ("c|re", r"a\*\?\\b", ["xa*?\\b"], ["axxb", "ax\\b"]),
    ("c|re", "^foo$", ["foo", "foo\n"], ["foo\nx", "xfoo", "foox"]),
    ("c|re", ".*foo.*", ["foo", "xfoo\nx"], ["fo"]),
    ("c|re", "^foo.*", ["foo", "foox"], ["xfoo"]),
    ("c|re", "[a-z]{0,3}[0-9]{1,3} ", ["x7 ", "777 "], ["7", "x "]),
    ("c|re|s", "foo.*", ["foo\nx"], ["fo"]),
    ("c|re|m|i", "foo", ["x\nFOO"], ["fo"]),
    ("c|windash|contains", "/u:x", ["a -u:x", "a /u:x", "a –u:x"], ["a u:x"]),
    ("c|windash|contains", "-u", ["a /u", "a -u"], ["au"]),
    ("c|windash", "a-b", ["a-b"], ["a/b"]),
    ("c", r"a\*b*c", ["a*bxc"], ["axbyc"]),
    ("c", "99999999999999999999", ["99999999999999999999"], [1e20]),
    ("c|wide|base64", "ab", ["YQBiAA=="], ["YWI="]),
    ("c|utf16be|base64", "ab", ["AGEAYg=="], ["YQBiAA=="]),
    ("c|base64offset|contains", "abc", ["YWJj", "IGFiY3", "ICBhYmM"], ["YWJk", "IGFiZA", "YXYZ"]),
    ("c|base64offset|contains", "ab", ["YWI", "IGFi", "ICBhY"], ["YXo", "IGFh", "ICBhd", "hX"]),
    ("c|windash|base64offset|contains", "-ab", ["LWFi", "L2Fi"], ["K2Fi"]),
    ("c|contains", 46, [46, "x46y"], [4624, "4 6"]),
    ("c|contains", "46", ["x46y"], [46, 4624]),
    ("c", "4624", ["4624", 4624], ["14624", 46240]),
    ("c", "-1", ["-1", -1], [1]),
    ("c", "1.5", ["1.5", 1.5], [1, "1.50"]),
    ("c", "1.50", ["1.50"], [1.5]),
    ("c", "True", ["TRUE", True], [1, False, "yes"]),
    ("c", False, [False, "False"], [0, True]),
    ("c", "*", ["", 0, "x", False], [None]),
    ("c|contains", "", ["x"], [None]),
    ("c", None, [None], ["", 0]),
    ("c", [None, "a"], [None, "A"], ["b"]),
    ("c|gte", "4700", [4700, 4701.5], [4699, "4800"]),
    ("c|lt", -1.5, [-2], [-1.5, 0]),
    ("c|exists", "no", [], ["", None, 1]),
    ("c|exists", True, ["", None, 1], []),
    ("c|cidr", "10.0.0.0/8", ["10.1.2.3"], ["11.0.0.1"]),
    (
        "c|cidr",
        "fe80::/10",
        ["fe80::1%eth0", "FE80::1"],
        ["fec0::1%eth0", "fe80::1%", "10.0.0.1%a"],
    ),
    ("c|cased|startswith", "Ab", ["Abc"], ["abc"]),
    ("c|contains|all", ["a", "b"], ["xAyB"], ["a", "b"]),
    ("c", r"C:\\*\x?".replace("?", r"\?"), [r"C:\any\x?"], [r"C:\any\xy"]),
]


@pytest.mark.parametrize(("key", "value", "right", "wrong"), FIELDS)
def test_a_field_means_what_sigma_says(
    tmp_path: Path, key: str, value: Any, right: list[Any], wrong: list[Any]
) -> None:
    index = index_of(tmp_path, {key: value})
    for one in right:
        assert index.match_one(json.dumps({"c": one})) == ["1"], one
    for one in wrong:
        assert index.match_one(json.dumps({"c": one})) == [], one


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ({"c|startswith|endswith": "a"}, "modifiers startswith|endswith"),
        ({"c|re|startswith": "a"}, "modifiers re|startswith"),
        ({"c|base64offset|windash|contains": "-a"}, "modifiers base64offset|windash|contains"),
        ({"c|cased|gte": 1}, "modifiers cased|gte"),
        ({"c|contains|i": "a"}, "modifiers contains|i"),
        ({"c|wide": "a"}, "encoded value"),
        ({"c|base64offset|contains": "a"}, "encoded value that is too short"),
        ({"c|base64|contains": ""}, "encoded value that is too short"),
        ({"c|re|m": "^a"}, "regular expression"),
        ({"c|startswith|s": "a"}, "modifiers startswith|s"),
        ({"c|windash": " -a -b -c -d"}, "too many dashes"),
        (
            {"c|cidr": "10.*"},
            "value that predicates do not have (not a network: '10.*'; expected one such as 10.0.0.0/8)",
        ),
        ({}, "empty selection"),
        ({"c|gte": "high"}, "comparison with a text"),
        ({"c|gte": True}, "comparison with a text"),
        ({"c|exists": [False]}, "value of exists"),
        ({"c|re": "a.*b"}, "regular expression"),
        ({"c": "a?b"}, "wildcard for one character"),
        ({"c|fieldref": "d"}, "comparison of two fields"),
        ({"c|nearly": "d"}, "modifier 'nearly'"),
    ],
)
def test_what_cannot_be_said_is_left_with_its_reason(
    tmp_path: Path, selection: dict[str, Any], reason: str
) -> None:
    (tmp_path / "rule.yml").write_text(json.dumps(rule(selection)))
    assert [one.reason for one in my.sigma(tmp_path / "rule.yml").left] == [reason]


def test_values_of_placeholders_are_alternatives_also_where_all_have_to_hold(
    tmp_path: Path,
) -> None:
    values = {"A": {"x", "y"}, "B": {"z": 1}.keys()}
    index = index_of(tmp_path, {"c|contains|all|expand": ["%A%", "%B%", None]}, placeholders=values)
    assert index.match_one({"c": "x"}) == []
    index = index_of(tmp_path, {"c|contains|all|expand": ["%A%", "%B%"]}, placeholders=values)
    found = [index.match_one({"c": text}) for text in ("x z", "zy", "x y", "z")]
    assert found == [["1"], ["1"], [], []]


def test_a_long_pattern_is_not_finite() -> None:
    assert finite("(((a{200}){200}){200}){20}") is None


IMAGE = 'Image in {suffix "\\\\cmd.exe" ignoring case}'


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        ({"Image|endswith": "\\cmd.exe"}, IMAGE),
        ({"a": "x"}, 'a in {= "x" ignoring case}'),
        ({"a": "x*"}, 'a in {prefix "x" ignoring case}'),
        ({"a": "*x"}, 'a in {suffix "x" ignoring case}'),
        ({"a": "x*y"}, 'a in {wildcard "x*y" ignoring case}'),
        ({"a": "x\\*y"}, 'a in {= "x*y" ignoring case}'),
        ({"a|startswith": "C:\\"}, 'a in {prefix "C:\\\\" ignoring case}'),
        ({"a|contains|cased": "x"}, 'a in {contains "x"}'),
        ({"a": "*"}, "exists a and not (a = null)"),
        ({"a": 7}, 'a in {7, = "7" ignoring case}'),
        ({"a": None}, "(not (exists a)) or (a in {null})"),
        ({"a|cidr": "10.0.0.0/8"}, 'a in {cidr "10.0.0.0/8"}'),
        ({"a|exists": False}, "not (exists a)"),
        ({"a|gte": 3}, "a in {>= 3}"),
        ({"a|base64": 123}, 'a in {= "MTIz" ignoring case}'),
        ({"And": "x"}, '`And` in {= "x" ignoring case}'),
        ({"cs method": "x"}, '`cs method` in {= "x" ignoring case}'),
        ({"a": "x", "b": "y"}, '(a in {= "x" ignoring case}) and (b in {= "y" ignoring case})'),
        (
            {"a|contains|all": ["x", "y"]},
            '(a in {contains "x" ignoring case}) and (a in {contains "y" ignoring case})',
        ),
    ],
)
def test_a_selection_is_translated(selection: dict[str, Any], text: str) -> None:
    assert translate({"selection": selection, "condition": "selection"}) == text


def test_dashes_are_written_in_all_ways() -> None:
    found = translate({"s": {"a|contains|windash": " -x"}, "condition": "s"})
    assert all(f'contains " {dash}x"' in found for dash in "-/\u2013\u2014\u2015")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("s1 and not s2", "(exists a) and (not (exists b))"),
        ("1 of s*", "(exists a) or (exists b)"),
        ("all of them", "(exists a) and (exists b)"),
        ("not (s1 or s2)", "not ((exists a) or (exists b))"),
    ],
)
def test_a_condition_is_translated(condition: str, text: str) -> None:
    selections = {"s1": {"a|exists": True}, "s2": {"b|exists": True}, "_t": {"c|exists": True}}
    assert translate({**selections, "condition": condition}) == text


@pytest.mark.parametrize(
    ("selection", "condition", "reason"),
    [
        ({"a|re": r"x\s+y"}, "s", "regular expression"),
        (["word"], "s", "keywords"),
        ({"a": "x?y"}, "s", "one character"),
        ({"a": "x"}, "s | count() > 5", "aggregation"),
        ({"a": "x"}, "s and", "not understood"),
        ({"a|unheard": "x"}, "s", "unheard"),
        ({"a|base64|wide": "x"}, "s", "modifiers base64|wide"),
    ],
)
def test_what_does_not_map_has_a_reason(selection: Any, condition: str, reason: str) -> None:
    with pytest.raises(Unmapped, match=reason):
        translate({"s": selection, "condition": condition})
