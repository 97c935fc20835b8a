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

_TOLD = r"matchyard\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\s+at |\s+SQLSTATE: |\Z)"  # then come Spark's own words


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


def check_subscriptions(frame: DataFrame, name: str, engine: str) -> None:
    """Refuse a column that cannot hold subscriptions of the engine."""
    found = type_of(frame, name, "subscriptions")
    if engine == "tags":
        _check_tags(found, name, "subscriptions")
        return
    if engine == "twigs":
        _check_twigs(found, name)
        return
    inner = found
    for _ in range(2):  # a list of constraints, or a list of such lists
        inner = inner.elementType if isinstance(inner, T.ArrayType) else inner
    if isinstance(found, T.StringType) or (inner is not found and isinstance(inner, T.StructType)):
        return
    raise UsageError(
        f"column {name!r} is {found.simpleString()}; subscriptions of engine {engine!r} are string, "
        "a predicate or a JSON pattern, or array<struct<name, op, value>>, constraints that hold "
        "together"
    )


def event_of(frame: DataFrame, event: str | Sequence[str] | None, engine: str) -> Column:
    """The events as one column; refused where it cannot hold events of the engine."""
    if isinstance(event, str):
        column, found = column_of(frame, event, "events"), type_of(frame, event, "events")
    elif engine != "predicates":
        raise UsageError(f"events of engine {engine!r} are one column, not {event!r}")
    else:
        names = [f"`{name}`" for name in frame.columns] if event is None else list(event)
        columns = [column_of(frame, name, "events").alias(_plain(name)) for name in names]
        if not columns:
            raise UsageError("events of no columns: name some, or None for the whole row")
        column, found = F.struct(*columns), T.StructType(frame.select(*columns).schema.fields)
    if engine == "tags":
        _check_tags(found, str(event), "events")
    elif engine == "twigs":
        _check_documents(found, str(event))
    elif isinstance(found, T.StructType | T.MapType):
        _check_attributes(found, event if isinstance(event, str) else "")
    elif not isinstance(found, T.StringType | T.BinaryType):
        raise UsageError(
            f"column {event!r} is {found.simpleString()}; events of engine {engine!r} are struct, "
            "map<string, …>, or string or binary with JSON; several columns as a list of names"
        )
    return column


def _plain(name: str) -> str:
    return name.replace("`", "")


def _check_tags(found: T.DataType, name: str, what: str) -> None:
    is_tags = isinstance(found, T.StringType) or (
        isinstance(found, T.ArrayType) and isinstance(found.elementType, T.StringType)
    )
    if not is_tags:
        raise UsageError(
            f"column {name!r} is {found.simpleString()}; {what} of engine 'tags' are "
            "array<string>, or string with white space between the tags"
        )


def _check_twigs(found: T.DataType, name: str) -> None:
    if not isinstance(found, T.StringType):
        raise UsageError(
            f"column {name!r} is {found.simpleString()}; subscriptions of engine 'twigs' are "
            "string, e.g. //article[author]/title"
        )


def _check_documents(found: T.DataType, name: str) -> None:
    if not isinstance(found, T.StringType | T.BinaryType):
        raise UsageError(
            f"column {name!r} is {found.simpleString()}; events of engine 'twigs' are string or "
            "binary with XML, such as the column 'content' of the source 'binaryFile'"
        )


def _check_attributes(found: T.DataType, path: str) -> None:
    """Refuse what no attribute can be, at any depth."""
    if isinstance(found, T.StructType):
        names = found.fieldNames()
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"two attributes of the name {twice!r}; rename one of them")
        for field in found.fields:
            _check_attributes(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(found, T.ArrayType):
        _check_attributes(found.elementType, f"{path}[]")
    elif isinstance(found, T.MapType):
        if not isinstance(found.keyType, T.StringType):
            raise UsageError(
                f"{path!r} is {found.simpleString()}; names of attributes are strings: cast its keys"
            )
        _check_attributes(found.valueType, f"{path}[…]")
    elif not isinstance(
        found,
        T.StringType | T.BooleanType | T.IntegralType | T.FloatType | T.DoubleType | T.NullType,
    ):
        raise UsageError(
            f"{path!r} is {found.simpleString()}; attributes are numbers, strings and booleans, and "
            "structs, arrays and maps of them: cast it, e.g. to double or string"
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
        found = re.search(_TOLD, str(error), re.DOTALL)
        kind = getattr(errors, found[1], None) if found else None
        if found is None or kind is None or not issubclass(kind, MatchyardError):
            raise
        raise kind(found[2].strip()) from None
