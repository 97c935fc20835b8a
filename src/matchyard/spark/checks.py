"""Checks of DataFrames when the plan is made, before it runs; and errors of tasks without Spark's
stack traces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import errors
from matchyard.errors import EventError, MatchyardError, ParseError, UsageError
from matchyard.shards import is_remote, path_text
from matchyard.spark.tasks.notes import NOTE, told

# An error, and Spark's own text after it: lines of Java such as `	at org.Some$Class.call(Some.scala:7)`.
_TOLD = r"matchyard\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\s+at [\w.$/<>]+\(|\s+SQLSTATE: \w{5}(?:\s|\Z)|\Z)"


def place_of(path: str | os.PathLike[str]) -> str:
    """An absolute path or an address: workers may run in another folder."""
    text = path_text(path)
    return text if is_remote(text) else os.path.abspath(text)


def places_of(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Absolute paths or addresses, of one or several."""
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(several, list | tuple) or not several:
        raise UsageError(f"not a path or several: {paths!r:.100}; expected e.g. 'events/'")
    return [place_of(one) for one in several]


def names_of(given: str | Sequence[str], what: str) -> list[str]:
    """The names of columns, of one or several."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"the {what} are a column or several, e.g. 'id', not {given!r:.100}")
    return list(names)


def check_frame(frame: Any, what: str) -> None:
    """Refuse what is no DataFrame of Spark."""
    if not isinstance(frame, DataFrame):
        raise UsageError(f"the {what} are a DataFrame of Spark, not {type(frame).__name__}")


def check_batch(frame: Any, what: str) -> None:
    """The same, and refuse a stream."""
    check_frame(frame, what)
    if frame.isStreaming:
        raise UsageError(
            f"the {what} are a stream; expected a DataFrame that is not: follow_changes keeps an index up with a "
            "stream of changes"
        )


def quoted(name: str) -> str:
    """The name of a column as Spark reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`" if set(name) & set("`.[") else name


def column_of(frame: DataFrame, name: str, what: str) -> Column:
    """A column by its name; nested fields as Spark writes them."""
    if not isinstance(name, str):
        raise UsageError(f"a column is named by a string, not {name!r:.100}")
    # Spark logs every name that it does not find as kilobytes of JSON: look for plain names here.
    is_plain = not set(name) & set("`.[")
    alike = [column for column in frame.columns if column.lower() == name.lower()]
    if is_plain and len(alike) > 1 and _ignores_case(frame):
        raise UsageError(
            f"{len(alike)} columns are {name!r} for Spark: {', '.join(alike)}; rename one of them"
        )
    if not is_plain or name.lower() in [column.lower() for column in frame.columns]:
        try:
            frame.select(F.col(name)).schema  # noqa: B018  Connect resolves names only on access
            return F.col(name)
        except AnalysisException:
            pass
    found = ", ".join(frame.columns)
    advice = f"; write it as {quoted(name)}" if name in frame.columns else ""
    raise UsageError(f"no column {name!r} for the {what}; found: {found}{advice}")


def _ignores_case(frame: DataFrame) -> bool:
    return str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"


def has_order(kind: T.DataType) -> bool:
    """True if Spark can sort by values of a type."""
    if isinstance(kind, T.StructType):
        return all(has_order(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return has_order(kind.elementType)
    return not isinstance(kind, T.MapType | T.VariantType | T.CalendarIntervalType)


def type_of(frame: DataFrame, name: str, what: str) -> T.DataType:
    """The type of a column."""
    return frame.select(column_of(frame, name, what)).schema[0].dataType


def carried(field: T.StructField) -> T.DataType:
    """The type of a column that is passed through; refused if Arrow has no such type."""
    kind = field.dataType
    if isinstance(kind, T.YearMonthIntervalType | T.CalendarIntervalType):
        raise UsageError(
            f"column {field.name!r} is {kind.simpleString()}, which Spark does not hand to Python: "
            "cast it, e.g. to string"
        )
    return kind


def check_subscriptions(frame: DataFrame, name: str, engine: str) -> None:
    """Refuse a column that cannot hold subscriptions of the engine."""
    kind = type_of(frame, name, "subscriptions")
    if engine == "tags":
        _check_tags(kind, name, "subscriptions")
        return
    if engine == "twigs":
        _check_twigs(kind, name)
        return
    inner = kind
    for _ in range(2):  # a list of constraints, or a list of such lists
        inner = inner.elementType if isinstance(inner, T.ArrayType) else inner
    if isinstance(kind, T.StringType) or (inner is not kind and isinstance(inner, T.StructType)):
        return
    raise UsageError(
        f"column {name!r} is {kind.simpleString()}; subscriptions of engine {engine!r} are string, "
        "a predicate or a JSON pattern, or array<struct<name, op, value>>, constraints that hold "
        "together"
    )


def event_of(frame: DataFrame, event: str | Sequence[str] | None, engine: str) -> Column:
    """The events as one column; refused if its type cannot hold events of the engine."""
    if isinstance(event, str):
        column, kind = column_of(frame, event, "events"), type_of(frame, event, "events")
    elif engine != "predicates":
        raise UsageError(f"events of engine {engine!r} are one column, not {event!r}")
    else:
        whole = [quoted(name) for name in frame.columns]
        names = whole if event is None else names_of(event, "columns of the event")
        columns = [column_of(frame, name, "events").alias(_plain(name)) for name in names]
        if not columns:
            raise UsageError("events of no columns: name some, or None for the whole row")
        column, kind = F.struct(*columns), T.StructType(frame.select(*columns).schema.fields)
    if engine == "tags":
        _check_tags(kind, str(event), "events")
    elif engine == "twigs":
        _check_documents(kind, str(event))
    elif isinstance(kind, T.StructType | T.MapType):
        _check_attributes(kind, event if isinstance(event, str) else "")
    elif not isinstance(kind, T.StringType | T.BinaryType):
        raise UsageError(
            f"column {event!r} is {kind.simpleString()}; events of engine {engine!r} are struct, "
            "map<string, …>, or string or binary with JSON; several columns as a list of names"
        )
    return column


def _plain(name: str) -> str:
    """The name of a column without quotes."""
    if name[:1] == name[-1:] == "`" and len(name) > 1:
        return name[1:-1].replace("``", "`")
    return name.replace("`", "")


def _check_tags(kind: T.DataType, name: str, what: str) -> None:
    is_tags = isinstance(kind, T.StringType) or (
        isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StringType)
    )
    if not is_tags:
        raise UsageError(
            f"column {name!r} is {kind.simpleString()}; {what} of engine 'tags' are "
            "array<string>, or string with white space between the tags"
        )


def _check_twigs(kind: T.DataType, name: str) -> None:
    if not isinstance(kind, T.StringType):
        raise UsageError(
            f"column {name!r} is {kind.simpleString()}; subscriptions of engine 'twigs' are "
            "string, e.g. //article[author]/title"
        )


def _check_documents(kind: T.DataType, name: str) -> None:
    if not isinstance(kind, T.StringType | T.BinaryType):
        raise UsageError(
            f"column {name!r} is {kind.simpleString()}; events of engine 'twigs' are string or "
            "binary with XML, such as the column 'content' of the source 'binaryFile'"
        )


def _check_attributes(kind: T.DataType, path: str) -> None:
    """Refuse types that no attribute can have, at any depth."""
    if isinstance(kind, T.StructType):
        names = kind.fieldNames()
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"two attributes of the name {twice!r}; rename one of them")
        for field in kind.fields:
            _check_attributes(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(kind, T.ArrayType):
        _check_attributes(kind.elementType, f"{path}[]")
    elif isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise UsageError(
                f"{path!r} is {kind.simpleString()}; names of attributes are strings: cast its keys"
            )
        _check_attributes(kind.valueType, f"{path}[…]")
    elif not isinstance(
        kind,
        T.StringType | T.BooleanType | T.IntegralType | T.FloatType | T.DoubleType | T.NullType,
    ):
        raise UsageError(
            f"{path!r} is {kind.simpleString()}; attributes are numbers, strings and booleans, and "
            "structs, arrays and maps of them: cast it, e.g. to double or string"
        )


def key_type(frame: DataFrame, name: str) -> T.DataType:
    """The type of the keys: bigint or string."""
    kind = type_of(frame, name, "keys")
    if isinstance(kind, T.IntegralType):
        return T.LongType()
    if isinstance(kind, T.StringType):
        return T.StringType()
    raise UsageError(
        f"column {name!r} is {kind.simpleString()}; keys are integers of up to 64 bits or strings"
    )


def refuse_equal_names(schema: T.StructType) -> None:
    """Refuse a result with two columns of one name, as Spark compares them."""
    names = schema.fieldNames()
    if len({name.lower() for name in names}) < len(names):
        raise UsageError(
            f"the result would have two columns of one name: {', '.join(names)}; rename yours"
        )


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; expected one of: {', '.join(choices)}")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Re-raise our errors from a task as themselves, without Spark's stack traces."""
    try:
        yield
    except PySparkException as error:
        parsed = re.search(_TOLD, str(error), re.DOTALL)
        kind = getattr(errors, parsed[1], None) if parsed else None
        if parsed is None or kind is None or not issubclass(kind, MatchyardError):
            raise
        text, _, note = parsed[2].strip().partition(f"\n{NOTE}")
        if issubclass(kind, ParseError):
            raise told(text, note) from None
        raise (UsageError if issubclass(kind, EventError) else kind)(text) from None
