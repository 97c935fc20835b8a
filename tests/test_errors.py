"""Every ParseError says where, what was found, what was expected, and an example, in fields too."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.engines.twigs.language import TwigError
from matchyard.errors import EventError, JsonError, ParseError, XmlError
from tests.test_form import FILES, SOURCES, module_of

NEEDED = {"found", "expected", "example"}
FIELDS = {"found": "{5}", "expected": "text", "example": "jazz"}


def kinds() -> set[str]:
    """ParseError and the classes below it, by name."""
    known = {"ParseError"}
    classes = [n for file in FILES for n in ast.walk(ast.parse(file.read_text()))]
    while True:
        below = {
            node.name
            for node in classes
            if isinstance(node, ast.ClassDef) and known & {ast.unparse(base) for base in node.bases}
        }
        if below <= known:
            return known
        known |= below


KINDS = kinds()


def prose_alone(source: str) -> Iterator[str]:
    """The places of a module that make a ParseError without its fields."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None and ast.unparse(node.exc) in KINDS:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if not isinstance(node, ast.Call):
            continue
        made = ast.unparse(node.func)
        if made in KINDS:
            yield f"line {node.lineno}: {made}(…); use {made}.of"
        elif made.removesuffix(".of") in KINDS:
            missing = NEEDED - {keyword.arg for keyword in node.keywords}
            if missing:
                yield f"line {node.lineno}: {made} without {', '.join(sorted(missing))}"


def test_the_kinds_of_parse_errors_are_known() -> None:
    assert {"ParseError", "JsonError", "XmlError", "TwigError"} == KINDS


@pytest.mark.parametrize(
    "file", [file for file in FILES if file != SOURCES / "errors.py"], ids=module_of
)
def test_no_module_makes_a_parse_error_of_prose_alone(file: Path) -> None:
    assert not list(prose_alone(file.read_text()))


@pytest.mark.parametrize(
    ("source", "n_faults"),
    [
        ("raise ParseError", 1),
        ("raise ParseError('no tags')", 1),
        ("def f(): return XmlError('no element', 1, 1)", 1),
        ("raise TwigError.of('{found}', found='5')", 1),
        ("raise JsonError.of('{found}', found='5', expected='text', example='{}', event=0)", 0),
        ("raise error.saying('row 3')", 0),
    ],
)
def test_the_search_for_prose_alone_finds_it(source: str, n_faults: int) -> None:
    assert len(list(prose_alone(source))) == n_faults


ERRORS = [
    ParseError("not a thing: {5}"),
    ParseError.of("not a {what}: {found}", what="tag {x}", line=2, column=3, **FIELDS),
    TwigError.of("not a twig: {found}", part="axis", line=1, column=4, **FIELDS),
    JsonError.of("is no object: {found}", event=3, **FIELDS),
    XmlError.of("mismatched {found}", line=2, column=3, **FIELDS).counted_from(4),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "passed_on",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_an_error_travels_with_its_message_and_fields(error: ParseError, passed_on: Any) -> None:
    error.add_note("from a worker")
    arrived = passed_on(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.args == error.args
    assert vars(arrived) == vars(error)


def test_an_error_of_prose_has_empty_fields_and_keeps_its_braces() -> None:
    error = my.ParseError("not a thing: {5}")
    assert str(error) == "not a thing: {5}"
    assert (error.line, error.column, error.found, error.expected, error.example) == (None,) * 5


def test_an_error_that_names_its_row_keeps_the_fields() -> None:
    error = ERRORS[1].saying(f"row 7: {ERRORS[1]}")
    assert str(error) == "row 7: not a tag {x}: {5}"
    assert vars(error) == {"line": 2, "column": 3, **FIELDS}


@pytest.mark.parametrize("error", ERRORS[3:], ids=lambda error: type(error).__name__)
def test_counting_an_event_from_another_first_one_keeps_the_fields(error: Any) -> None:
    counted = error.counted_from(10)
    assert counted.event == error.event + 10
    assert f" {counted.event} " in str(counted)
    assert isinstance(counted, EventError)
    assert (counted.reason, counted.found, counted.column) == (
        error.reason, "{5}", error.column,
    )  # fmt: skip


# What was said before there were fields.
MESSAGES = [
    ("tags", ["jazz", 5], "not a tag: 5 in ['jazz', 5]; expected a set of strings such as "
     '{"jazz", "live"} or text such as "jazz live"'),
    ("predicates", "temp > > 3", 'not a predicate: column 8: found >; expected a value such as 30 or "north"\n'
     '  temp > > 3\n         ^\nfor example: area = "north" and temp > 30 or wind > 20'),
    ("predicates", "a = 1 and\n  b ? 2", "not a predicate: line 2, column 5: found ?; expected an operator such as = or in\n"
     '    b ? 2\n      ^\nfor example: area = "north" and temp > 30 or wind > 20'),
    ("predicates", {"temp": [{"prefix": 5}]}, 'not a pattern: temp[0].prefix: found 5; expected text, such as "ab"; '
     'for example: {"area": ["north"], "temp": [{"numeric": [">", 30]}]}'),
    ("predicates", '{"temp": }', "not JSON of a pattern: line 1, column 10: Expecting value; "
     'for example {"area": ["north"]}'),
    ("predicates", 5, "not a predicate: 5; expected text, a pattern or an expression, "
     'for example: area = "north" and temp > 30 or wind > 20'),
    ("twigs", "a[", "not a twig: column 3: it ends here; expected a step, such as title, *, @year or text()\n"
     '  a[\n    ^\nfor example: /dblp/article[author = "Ada"][@year > 1990]//title'),
    ("twigs", 5, 'not a twig: 5; expected text, for example: /dblp/article[author = "Ada"][@year > 1990]//title'),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "value", "message"), MESSAGES, ids=lambda v: repr(v)[:20])
def test_the_composed_message_is_what_it_was(engine: str, value: Any, message: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.create(engine).parse(value)
    assert str(caught.value) == message
