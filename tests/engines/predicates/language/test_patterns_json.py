"""JSON patterns: every operator, of EventBridge and our own, with what it matches and what not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from matchyard.engines.predicates.language import format, parse
from matchyard.engines.predicates.oracle import is_match
from matchyard.errors import ParseError

NAN = float("nan")
# What `anything-but` of texts takes, too; also in an array beside a text that it does not take.
OF_OTHER_TYPES: list[Any] = [
    {"x": 1},
    {"x": 0.5},
    {"x": True},
    {"x": None},
    {"x": ["ab.c/lib/", 1]},
]
# operator, a pattern with it, events that match, events that do not; the docs show it
OPERATORS: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("equals", {"x": ["a"]}, [{"x": "a"}, {"x": ["b", "a"]}], [{"x": "A"}, {"x": 1}, {}]),
    ("or", {"x": ["a", "b"]}, [{"x": "a"}, {"x": "b"}], [{"x": "c"}]),
    ("and", {"x": ["a"], "y": [1]}, [{"x": "a", "y": 1}], [{"x": "a"}, {"x": "a", "y": 2}]),
    ("nested", {"d": {"x": ["a"]}}, [{"d": {"x": "a"}}, {"d.x": "a"}], [{"x": "a"}, {"d": "a"}]),
    ("null", {"x": [None]}, [{"x": None}, {"x": [1, None]}], [{"x": ""}, {"x": "null"}, {"x": []}, {}]),
    ("empty", {"x": [""]}, [{"x": ""}], [{"x": None}, {"x": " "}]),
    ("boolean", {"x": [True]}, [{"x": True}], [{"x": 1}, {"x": "true"}, {"x": False}]),
    ("number", {"x": [300]}, [{"x": 300}, {"x": 3.0e2}], [{"x": "300"}, {"x": 300.5}, {"x": True}]),
    ("prefix", {"x": [{"prefix": "ab"}]}, [{"x": "ab"}, {"x": "abc"}], [{"x": "a"}, {"x": "Abc"}]),
    ("prefix, any case", {"x": [{"prefix": {"equals-ignore-case": "aB"}}]}, [{"x": "ABc"}], [{"x": "a"}]),
    ("suffix", {"x": [{"suffix": ".png"}]}, [{"x": "a.png"}], [{"x": "a.PNG"}, {"x": "png"}]),
    ("suffix, any case", {"x": [{"suffix": {"equals-ignore-case": ".png"}}]}, [{"x": "a.PnG"}], [{"x": "png"}]),
    ("equals-ignore-case", {"x": [{"equals-ignore-case": "alice"}]}, [{"x": "Alice"}], [{"x": "alic"}, {"x": 1}]),
    ("wildcard", {"x": [{"wildcard": "dir/*.png"}]}, [{"x": "dir/a.png"}, {"x": "dir/b/.png"}], [{"x": "dir.png"}]),
    ("wildcard, several", {"x": [{"wildcard": "*a*b"}]}, [{"x": "ab"}, {"x": "aab"}], [{"x": "ba"}, {"x": "abc"}]),
    ("wildcard, escaped *", {"x": [{"wildcard": r"a\*b"}]}, [{"x": "a*b"}], [{"x": "axb"}]),
    ("wildcard, escaped \\", {"x": [{"wildcard": r"a\\*"}]}, [{"x": "a\\"}, {"x": "a\\b"}], [{"x": "a*"}]),
    ("wildcard, any case", {"x": [{"wildcard": {"equals-ignore-case": "a*B"}}]}, [{"x": "Axb"}], [{"x": "Axc"}]),
    ("contains", {"x": [{"contains": "ab"}]}, [{"x": "cabc"}, {"x": "ab"}], [{"x": "acb"}, {"x": "AB"}, {"x": 1}]),
    ("contains, any case", {"x": [{"contains": {"equals-ignore-case": "aB"}}]}, [{"x": "cAbc"}], [{"x": "acb"}]),
    ("anything-but", {"x": [{"anything-but": "a"}]}, [{"x": "b"}, {"x": 1}, {"x": None}, {"x": ["a", "b"]}], [{"x": "a"}, {"x": ["a"]}, {}]),
    ("anything-but, number", {"x": [{"anything-but": 100}]}, [{"x": 1}, {"x": "100"}], [{"x": 100.0}]),
    ("anything-but, list", {"x": [{"anything-but": ["a", "b"]}]}, [{"x": "c"}], [{"x": "a"}, {"x": "b"}]),
    ("anything-but, numbers", {"x": [{"anything-but": [1, 2]}]}, [{"x": 3}], [{"x": 1}, {"x": 2}]),
    ("anything-but prefix", {"x": [{"anything-but": {"prefix": "a"}}]}, [{"x": "b"}, {"x": ""}, *OF_OTHER_TYPES], [{"x": "ab"}, {"x": NAN}, {}]),
    ("anything-but prefixes", {"x": [{"anything-but": {"prefix": ["a", "b"]}}]}, [{"x": "c"}, *OF_OTHER_TYPES], [{"x": "ab"}, {"x": "b"}]),
    ("anything-but suffix", {"x": [{"anything-but": {"suffix": ".c"}}]}, [{"x": "a.h"}, *OF_OTHER_TYPES], [{"x": "a.c"}, {"x": ["a.c", "b.c"]}, {"x": NAN}, {}]),
    ("anything-but suffixes", {"x": [{"anything-but": {"suffix": [".c", ".h"]}}]}, [{"x": "c"}, *OF_OTHER_TYPES], [{"x": "a.c"}, {"x": ".h"}]),
    ("anything-but equals-ignore-case", {"x": [{"anything-but": {"equals-ignore-case": "a"}}]}, [{"x": "b"}, *OF_OTHER_TYPES], [{"x": "A"}, {"x": NAN}, {}]),
    ("anything-but several, any case", {"x": [{"anything-but": {"equals-ignore-case": ["a", "B"]}}]}, [{"x": "c"}, *OF_OTHER_TYPES], [{"x": "A"}, {"x": "b"}]),
    ("anything-but wildcard", {"x": [{"anything-but": {"wildcard": "*/lib/*"}}]}, [{"x": "/bin/a"}, *OF_OTHER_TYPES], [{"x": "/lib/a"}, {"x": NAN}, {}]),
    ("anything-but wildcards", {"x": [{"anything-but": {"wildcard": ["a*", "*b"]}}]}, [{"x": "c"}, *OF_OTHER_TYPES], [{"x": "ac"}, {"x": "cb"}]),
    ("numeric =", {"x": [{"numeric": ["=", 5]}]}, [{"x": 5}, {"x": 5.0}], [{"x": 6}, {"x": "5"}]),
    ("numeric >", {"x": [{"numeric": [">", 0]}]}, [{"x": 1e-9}], [{"x": 0}, {"x": -0.0}, {"x": True}]),
    ("numeric >=", {"x": [{"numeric": [">=", 0]}]}, [{"x": 0}], [{"x": -1}]),
    ("numeric <", {"x": [{"numeric": ["<", 10]}]}, [{"x": -3.018e2}], [{"x": 10}]),
    ("numeric <=", {"x": [{"numeric": ["<=", 10]}]}, [{"x": 10}], [{"x": 10.5}]),
    ("numeric range", {"x": [{"numeric": [">", 0, "<=", 5]}]}, [{"x": 5}, {"x": [9, 1]}], [{"x": 0}, {"x": 6}, {"x": [-1, 9]}]),
    ("compare !=", {"x": [{"compare": ["!=", 5]}]}, [{"x": 6}, {"x": [5, 6]}], [{"x": 5.0}, {"x": "5"}, {}]),
    ("compare, texts", {"x": [{"compare": ["<", "m"]}]}, [{"x": "lz"}, {"x": ""}], [{"x": "m"}, {"x": 1}]),
    ("compare, range of texts", {"x": [{"compare": [">=", "a", "<", "c"]}]}, [{"x": "bz"}], [{"x": "c"}, {"x": ["", "d"]}]),
    ("exists", {"x": [{"exists": True}]}, [{"x": 0}, {"x": None}, {"x": [1]}], [{}, {"x": []}, {"x": {"y": 1}}]),
    ("exists false, elements", {"e": {"x": [1], "y": [{"exists": False}]}}, [{"e": [{"x": 1}, {"z": 2}]}], [{"e": [{"x": 1}, {"y": 2}]}]),
    ("exists false", {"x": [{"exists": False}]}, [{}, {"x": []}, {"x": {}}], [{"x": 0}, {"x": None}]),
    ("exists false, or", {"x": ["a", {"exists": False}]}, [{}, {"x": "a"}], [{"x": "b"}]),
    ("cidr", {"x": [{"cidr": "10.0.0.0/24"}]}, [{"x": "10.0.0.255"}], [{"x": "10.0.1.0"}, {"x": "::ffff:10.0.0.1"}, {"x": "a"}]),
    ("cidr, IPv6", {"x": [{"cidr": "2001:db8::/32"}]}, [{"x": "2001:DB8::1"}], [{"x": "2001:db9::"}, {"x": "10.0.0.1"}]),
    ("$or", {"$or": [{"x": [1]}, {"y": [2]}]}, [{"x": 1}, {"y": 2}], [{"x": 2, "y": 1}]),
    ("$or, and", {"z": [0], "$or": [{"x": [1]}, {"y": [2]}]}, [{"x": 1, "z": 0}], [{"x": 1}, {"z": 0}]),
    ("$or, nested", {"d": {"$or": [{"x": [1]}, {"y": {"z": [2]}}]}}, [{"d": {"x": 1}}, {"d": {"y": {"z": 2}}}], [{"x": 1}]),
    ("$or in $or", {"$or": [{"$or": [{"x": [1]}, {"y": [1]}]}, {"z": [1]}]}, [{"y": 1}, {"z": 1}], [{}]),
    ("array of objects", {"e": {"x": [1], "y": [4]}}, [{"e": [{"x": 1, "y": 4}]}], [{"e": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}]),
    ("$and", {"$and": [{"x": ["a"]}, {"x": ["b"]}]}, [{"x": ["a", "b"]}], [{"x": "a"}]),
    ("$not", {"$not": {"x": [1]}}, [{}, {"x": 2}, {"x": "1"}], [{"x": 1}, {"x": [2, 1]}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rule", "matching", "others"), OPERATORS, ids=[o[0] for o in OPERATORS]
)
def test_every_operator_matches_what_it_should(
    name: str, rule: dict[str, Any], matching: list[Any], others: list[Any]
) -> None:
    predicate = parse(rule)
    assert [event for event in matching if not is_match(predicate, event)] == []
    assert [event for event in others if is_match(predicate, event)] == []
    assert parse(json.dumps(rule)) == parse(f"  {json.dumps(rule, indent=1)}") == predicate
    assert parse(format(predicate)) == predicate


def test_rules_and_text_give_the_same_predicate() -> None:
    rule = {"area": ["north"], "temp": [{"numeric": [">", 30]}], "detail": {"a": [1, 2]}}
    assert parse(rule) == parse('detail.a in {1, 2} and temp > 30 and area = "north"')
    assert parse({"x": [{"numeric": ["<", 9, ">=", 1]}]}) == parse("x in [1, 9)")
    assert parse({"a.b": ("v",)}) == parse({"a": {"b": ["v"]}}) == parse('a.b = "v"')
    assert parse({"x": [{"anything-but": 1}, "a"]}) == parse('x except 1 or x = "a"')


MALFORMED: list[tuple[Any, str]] = [
    ({}, "an object without fields; expected at least one"),
    ({"a": {}}, "a.: an object without fields"),
    ({"a": []}, "a: an empty list; expected at least one value"),
    ({"a": "north"}, "a: found \"north\"; expected a list of values, such as [\"north\"]"),
    ({"a": None}, "a: found null; expected a list of values, such as [null]"),
    ({"a": {"b": 5}}, "a.b: found 5; expected a list of values"),
    ({5: ["a"]}, "the key 5; expected text"),
    ({"a": [["b"]]}, "a[0]: found [\"b\"]; expected a value or an operator"),
    ({"a": [1, {"near": 3}]}, "a[1]: no operator \"near\"; expected one of: numeric, compare"),
    ({"a": [{}]}, "a[0]: an object with 0 keys; expected one operator"),
    ({"a": [{"prefix": "a", "suffix": "b"}]}, "a[0]: an object with 2 keys; expected one operator"),
    ({"a": [{"prefix": 5}]}, 'a[0].prefix: found 5; expected text, such as "ab"'),
    ({"a": [{"prefix": {"wildcard": "a"}}]}, 'a[0].prefix: found {"wildcard": "a"}; expected text or'),
    ({"a": [{"suffix": None}]}, "a[0].suffix: found null; expected text"),
    ({"a": [{"equals-ignore-case": ["b"]}]}, 'a[0].equals-ignore-case: found ["b"]; expected text, such as "ab"'),
    ({"a": [{"wildcard": "a\\b"}]}, r"a[0].wildcard: a \ at position 2 of the wildcard"),
    ({"detail": {"temp": [{"numeric": [">"]}]}}, "detail.temp[0].numeric: found [\">\"]; expected one or two"),
    ({"a": [{"numeric": ["!=", 5]}]}, "a[0].numeric: no comparison \"!=\"; expected one of: =, <, <="),
    ({"a": [{"numeric": [["="], 5]}]}, "a[0].numeric: no comparison [\"=\"]"),
    ({"a": [{"numeric": [">", "5"]}]}, "a[0].numeric: found \"5\"; expected a number"),
    ({"a": [{"numeric": [">", True]}]}, "a[0].numeric: found true; expected a number"),
    ({"a": [{"numeric": [">", 1, ">", 2]}]}, "expected a lower and an upper end"),
    ({"a": [{"numeric": [">", 9, "<", 1]}]}, "a[0].numeric: no value lies in (9, 1)"),
    ({"a": [{"compare": 5}]}, "a[0].compare: found 5; expected one or two comparisons"),
    ({"a": [{"compare": ["~", 5]}]}, "a[0].compare: no comparison \"~\"; expected one of: =, <, <=, >, >=, !="),
    ({"a": [{"compare": ["<", True]}]}, "a[0].compare: < takes a number or text, not true"),
    ({"a": [{"compare": [">", 1, "!=", 5]}]}, "a[0].compare: found [\">\", 1, \"!=\", 5]; expected a lower and an upper end"),
    ({"a": [{"compare": [">", 1, "<", "b"]}]}, "a[0].compare: 1 and 'b' are of different types"),
    ({"a": [{"exists": 1}]}, "a[0].exists: found 1; expected true or false"),
    ({"a": [{"cidr": 5}]}, 'a[0].cidr: found 5; expected text, such as "10.0.0.0/8"'),
    ({"$or": [{"numeric": [">", 0]}, {"x": [1]}]}, "$or[0].numeric: an operator without a field"),
    ({"x": {"$or": [{"y": [1]}, {"prefix": "a"}]}}, "x.$or[1].prefix: an operator without a field"),
    ({"$not": {"exists": [True]}}, "$not.exists: an operator without a field; expected a field with it"),
    ('{"a": [1], "b": [2], "a": [3]}', 'not JSON of a pattern: the key "a" twice in an object'),
    ('{"d": {"x": [1], "x": [1]}}', 'the key "x" twice in an object; expected each key once'),
    ('{"a": [' + "9" * 30 + "]}", "not JSON of a pattern: the integer '99999"),
    ({"a": [{"cidr": "10.0.0.0/64"}]}, "a[0].cidr: not a network: '10.0.0.0/64'"),
    ({"a": [{"anything-but": []}]}, "a[0].anything-but: an empty list"),
    ({"a": [{"anything-but": {"numeric": [">", 1]}}]}, "expected values, or one of: prefix, suffix"),
    ({"a": [{"anything-but": {"prefix": [""]}}]}, 'a[0].anything-but.prefix: every text has the prefix ""'),
    ({"a": [{"anything-but": {"suffix": 5}}]}, "a[0].anything-but.suffix: found 5; expected text"),
    ({"a": [{"anything-but": [["b"]]}]}, "a[0].anything-but: not a value: ['b']"),
    ({"$or": {"a": [1]}}, "$or: found {\"a\": [1]}; expected a list of objects"),
    ({"d": {"$or": []}}, "d.$or: found []; expected a list of objects"),
    ({"$or": [{"a": [1]}, 5]}, "$or[1]: found 5; expected an object"),
    ({"$not": [1]}, "$not: found [1]; expected an object"),
    ({"a": [2**64]}, "a[0]: the integer 18446744073709551616 has more than 64 bits"),
    ({"a": [float("nan")]}, "a[0]: nan compares with nothing"),
    ({"a": ["\ud800"]}, "a[0]: half of a surrogate pair"),
    ({"\ud800": ["a"]}, "half of a surrogate pair"),
    ('{"a": [1e400]}', "not JSON of a pattern: '1e400' is more than a double can hold; Infinity is"),
    ('{"a": [1}', "not JSON of a pattern: line 1, column 9: Expecting ',' delimiter"),
    ('{"a": ["b"]} x', "not JSON of a pattern: line 1, column 14: Extra data"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "message"),
    MALFORMED,
    ids=[str(m[0])[:40].encode("ascii", "replace").decode() for m in MALFORMED],
)
def test_a_malformed_pattern_is_refused_with_its_path(rule: Any, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(rule)
    assert message in str(caught.value)
    assert '{"area": ["north"]' in str(caught.value)


def test_a_pattern_of_many_levels_is_refused() -> None:
    rule: dict[str, Any] = {"a": [1]}
    for _ in range(2_000):
        rule = {"a": rule}
    with pytest.raises(ParseError, match="more than 100 objects within each other"):
        parse(rule)
    with pytest.raises(ParseError, match="nested too deeply"):
        parse('{"a":' * 100_000)
