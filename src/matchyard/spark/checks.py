"""What can be wrong with a DataFrame, said when the plan is made rather than when it runs; and what
went wrong in a task, said without the stack traces of three languages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import errors
from matchyard.errors import MatchyardError, UsageError


def place_of(path: str | os.PathLike[str]) -> str:
    """A path as workers can use it, which may run in a folder of their own."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def column_of(frame: DataFrame, name: str, what: str) -> Column:
    """A column by its name; nested fields as Spark writes them."""
    try:
        frame.select(F.col(name)).schema  # noqa: B018  Connect looks only when asked
    except AnalysisException:
        raise UsageError(
            f"no column {name!r} for the {what}; found: {', '.join(frame.columns)}"
        ) from None
    return F.col(name)


def type_of(frame: DataFrame, name: str, what: str) -> T.DataType:
    """The type of a column."""
    return frame.select(column_of(frame, name, what)).schema[0].dataType


def carried(field: T.StructField) -> T.DataType:
    """The type of a column that comes out as it went in; refused where Arrow has none for it."""
    found = field.dataType
    if isinstance(found, T.YearMonthIntervalType | T.CalendarIntervalType):
        raise UsageError(
            f"column {field.name!r} is {found.simpleString()}, which Spark does not hand to Python: "
            "cast it, e.g. to string"
        )
    return found


def check_values(frame: DataFrame, name: str, engine: str, what: str) -> None:
    """Refuse a column that cannot hold subscriptions or events of the engine."""
    found = type_of(frame, name, what)
    is_tags = isinstance(found, T.StringType) or (
        isinstance(found, T.ArrayType) and isinstance(found.elementType, T.StringType)
    )
    if not is_tags:
        raise UsageError(
            f"column {name!r} is {found.simpleString()}; {what} of engine {engine!r} are "
            "array<string>, or string with white space between the tags"
        )


def key_type(frame: DataFrame, name: str) -> T.DataType:
    """The type of the keys: bigint or string."""
    found = type_of(frame, name, "keys")
    if isinstance(found, T.IntegralType):
        return T.LongType()
    if isinstance(found, T.StringType):
        return T.StringType()
    raise UsageError(
        f"column {name!r} is {found.simpleString()}; keys are integers of up to 64 bits or strings"
    )


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; expected one of: {', '.join(choices)}")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what a task raised of our errors as itself, without Spark's stack traces."""
    try:
        yield
    except PySparkException as error:
        found = re.search(r"matchyard\.errors\.(\w+): (.*)", str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found is None or kind is None or not issubclass(kind, MatchyardError):
            raise
        raise kind(found[2].strip()) from None
