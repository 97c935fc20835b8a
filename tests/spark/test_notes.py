"""The fields of an error come to the driver as text: a note of the traceback."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import PySparkException

import matchyard as my
from matchyard.errors import ParseError
from matchyard.spark import plain_errors
from matchyard.spark.tasks.notes import NOTE, noted, told

FIELDS = {"line": 2, "column": 3, "found": "{5}", "expected": "text", "example": 'a = "ü"'}


def test_the_fields_survive_as_text_of_a_traceback() -> None:
    error = noted(ParseError.of("row {{7}}: {found}\n  a > > 3\n      ^", **FIELDS))  # type: ignore[arg-type]
    text = "".join(traceback.format_exception(error)).strip()
    message, _, note = text.removeprefix("matchyard.errors.ParseError: ").partition(f"\n{NOTE}")
    assert str(told(message, note)) == str(error)
    assert vars(told(message, note)) == FIELDS


def test_text_of_a_user_does_not_end_the_message() -> None:
    text = "no name: 'a\n\tat x'\nfor example: b"
    for end in (
        "\n\tat org.apache.Some$Class.call(Some.scala:7)\n\tat java.lang.Thread.run(Thread.java)",
        "\n\nDriver stacktrace:",
        "\n SQLSTATE: 38000",
        " SQLSTATE: 39000 and more",
        "",
    ):
        with pytest.raises(my.UsageError) as raised, plain_errors():
            raise PySparkException(f"Traceback:\nmatchyard.errors.UsageError: {text}{end}")
        assert str(raised.value) == text


def test_a_note_that_is_cut_off_leaves_the_message() -> None:
    error = told("not a tag: {5}", '[2, 3, "{5')
    assert str(error) == "not a tag: {5}"
    assert vars(error) == dict.fromkeys(FIELDS)
