"""Convert rows of files to the columns of an index, and its matches to rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from matchyard.cli import formats
from matchyard.errors import ParseError
from matchyard.matches import Matches

Batch = tuple[Any, Any, int]  # values, the names of their rows, and the number of the first row
Parse = Callable[[Any], Any]
_PAIRS = 1 << 20  # of a table
_NO_FIELD = "line {number} has no {expected}; found: {found}"


def rows_of(
    path: str,
    format: str | None,
    parse: Parse,
    field: str | None,
    name_field: str,
    need_key: bool = False,
    bad: Path | None = None,
    split: formats.Split | None = None,
    what: str = "event",
) -> Iterator[Batch]:
    """Batches of (values, names, first row). Without a field, a value is a whole row. A row without a
    name is named by its number.

    A row that cannot be read raises an error, or is written to `bad` with the reason; `what` names it.
    """
    first = 0
    if bad is not None:
        formats.open_to_write(bad).close()
    for batch in formats.read(path, format, split=split):
        n_rows = len(batch)
        if isinstance(batch, pa.Table):
            values, names = _from_table(batch, field, name_field, need_key, first, path)
            if bad is not None:
                values, names = _good_of_table(values, names, parse, bad, first, what)
        else:
            values, names, problems = _from_lines(
                batch, parse, field, name_field, need_key, first, None if bad is None else what
            )
            if bad is not None and problems:
                with bad.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(problem) + "\n" for problem in problems)
        if len(values):
            yield values, names, first
        first += n_rows


@contextmanager
def located(path: str, first: int) -> Iterator[None]:
    """Add the position of a batch in the file to its errors."""
    try:
        yield
    except ParseError as error:
        where = f"{path}, rows counted from {first}" if first else path
        raise error.saying(f"{where}: {error}") from None


def _from_table(
    table: pa.Table, field: str | None, name_field: str, need_key: bool, first: int, path: str
) -> tuple[Any, Any]:
    columns = table.column_names
    if field is not None and field not in columns:
        message = "{path}: no {expected}; found: {found}"
        raise _missing(message, "column", field, columns, path=path)
    if name_field in columns:
        names = table[name_field]
    elif need_key:
        message = "{path}: no {expected}; found: {found}"
        raise _missing(message, "column", name_field, columns, path=path)
    else:
        names = pa.array(np.arange(first, first + len(table)))
    values = table.to_struct_array() if field is None else table[field]
    return values.combine_chunks(), names


def _missing(message: str, kind: str, name: str, there: Iterable[str], **said: Any) -> ParseError:
    """The error that a column or field is not there."""
    return ParseError.of(
        message,
        found=", ".join(there),
        expected=f"{kind} {name!r}",
        example=None,  # a row of any engine
        **said,
    )


def _good_of_table(
    values: pa.Array, names: Any, parse: Parse, bad: Path, first: int, what: str
) -> tuple[Any, Any]:
    """Set aside the rows that cannot be read."""
    kept = []
    with bad.open("a", encoding="utf-8") as file:
        for row, value in enumerate(values.to_pylist()):
            reason = _reason(value, parse)
            if reason is None:
                kept.append(row)
            else:
                problem = {"row": first + row, what: value, "reason": reason}
                file.write(json.dumps(problem, default=_shown) + "\n")
    at = pa.array(kept, pa.int64())
    return values.take(at), names.take(at)


def _shown(value: Any) -> str:
    """A value that JSON cannot represent, as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else repr(value)


def _reason(value: Any, parse: Parse) -> str | None:
    try:
        parse(value)
    except ParseError as error:
        return str(error)
    return None


def _from_lines(
    rows: list[Any],
    parse: Parse,
    field: str | None,
    name_field: str,
    need_key: bool,
    first: int,
    what: str | None,
) -> tuple[list[Any], list[Any], list[dict[str, Any]]]:
    """(values, names, problems); without `what`, the first problem is an error."""
    values, names, problems = [], [], []
    for place, (line, row) in enumerate(rows):
        try:
            value, name = _from_line(line, row, parse, field, name_field, need_key, first + place)
        except ParseError as error:
            if what is None:
                raise
            shown = row.text if isinstance(row, formats.Unread) else row
            problems.append({"line": line, what: shown, "reason": str(error)})
            continue
        values.append(value)
        names.append(name)
    return values, names, problems


def _from_line(
    line: int,
    row: Any,
    parse: Parse,
    field: str | None,
    name_field: str,
    need_key: bool,
    number: int,
) -> tuple[Any, Any]:
    if isinstance(row, formats.Unread):
        raise row.error
    name = number
    if isinstance(row, dict):
        if field is not None and field not in row:
            raise _missing(_NO_FIELD, "field", field, row, number=line)
        if need_key and name_field not in row:
            raise _missing(_NO_FIELD, "field", name_field, row, number=line)
        row, name = row if field is None else row[field], row.get(name_field, number)
    elif need_key:
        raise ParseError.of(
            "line {number} has {found}; expected e.g. {expected}",
            number=line,
            found="no key",
            expected=f'{{"{field}": …, "{name_field}": 7}}',
            example=None,  # a row of any engine
        )
    try:
        return parse(row), name
    except ParseError as error:
        raise error.saying(f"line {line}: {error}") from None


def as_table(values: pa.Array, ids: Any, field: str | None) -> pa.Table:
    """Convert events to rows for `rows_of`: one column, or the attributes as columns."""
    if field is not None or not pa.types.is_struct(values.type):
        return pa.table({"id": ids, field or "event": values})
    return pa.Table.from_struct_array(values)


def pairs_schema(keys: str, arrays: bool) -> pa.Schema:
    """The schema of `pairs`, for a result without rows."""
    key = pa.string() if keys == "str" else pa.int64()
    return pa.schema({"event": pa.int64(), **({"keys": pa.list_(key)} if arrays else {"key": key})})


def pairs(matches: Matches, ids: Any, arrays: bool) -> Iterator[pa.Table]:
    """Convert matches to tables of a million pairs or a little more: a row per (event, key), or per event with its
    `keys`."""
    if not isinstance(ids, pa.Array | pa.ChunkedArray):
        ids = _named(ids)
    first, tables, n_pairs = 0, [], 0
    for some in matches.array_batches(_PAIRS) if arrays else matches.batches(_PAIRS):
        if arrays:
            tables.append(pa.table({"event": ids.slice(first, len(some)), "keys": some}))
            first += len(some)
        else:
            tables.append(pa.table({"event": ids.take(some["event"]), "key": some["key"]}))
        n_pairs += len(some.values) if arrays else len(some)
        if n_pairs >= _PAIRS:  # small tables would be small row groups of Parquet
            yield pa.concat_tables(tables)
            tables, n_pairs = [], 0
    if tables:
        yield pa.concat_tables(tables)


def _named(ids: list[Any]) -> pa.Array:
    """The names of events as one column: numbers or strings as they are, a mixture as strings."""
    if {type(name) for name in ids} <= {int}:
        try:
            return pa.array(ids, pa.int64())
        except OverflowError:
            pass
    texts = [name if isinstance(name, str) else json.dumps(name) for name in ids]
    return pa.array([text.encode(errors="replace").decode() for text in texts], pa.string())
