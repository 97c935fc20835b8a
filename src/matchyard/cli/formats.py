"""Files of subscriptions, events and pairs, by name or as a stream: JSON Lines, CSV, Parquet, Arrow;
and XML, for reading only."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from matchyard.errors import ParseError, UsageError
from matchyard.kernels.json_lines import Values, integers, pair_lines, texts

FORMATS = ("jsonl", "csv", "parquet", "arrow")
XML = "xml"
_BATCH = 65_536
_BATCH_BYTES = 1 << 24  # of rows of CSV; no row may be longer
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv",
            ".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".ipc": "arrow", ".feather": "arrow",
            ".xml": XML}  # fmt: skip

_UNPACK = {".gz": "zcat", ".xz": "xzcat", ".bz2": "bzcat", ".zst": "zstdcat"}  # by ending


Split = Callable[[Any], Iterator[list[bytes]]]  # the documents in an open XML file, some at a time


class Unread(NamedTuple):
    """A line that is not JSON, and its error."""

    text: str
    error: ParseError


def format_of(path: str, given: str | None) -> str:
    """The format of a file: as given, by its ending, or JSON Lines for a standard stream."""
    if given is not None:
        if given not in (*FORMATS, XML):
            raise UsageError(f"no format {given!r}; expected one of: {', '.join(FORMATS)}")
        return given
    if path == "-":
        return "jsonl"
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(
            f"{path}: no format is known by the ending {ending!r}; expected one of "
            f"{', '.join(_ENDINGS)}, or --format"
        )
    return _ENDINGS[ending]


def read(
    path: str, given: str | None = None, batch: int = _BATCH, split: Split | None = None
) -> Iterator[list[Any] | pa.Table]:
    """Read batches of rows: Arrow tables, or lists of (line number, value) from JSON Lines, with an
    `Unread` for a line that is not JSON. XML has a column `document`: the whole file, or the documents
    from `split`."""
    unpack = _UNPACK.get(Path(path).suffix.lower())
    if unpack is not None:
        raise UsageError(
            f"{path} is compressed: pipe it, e.g. {unpack} {path} | matchyard …, with - as the file"
        )
    kind = format_of(path, given)
    if split is not None and kind != XML:
        raise UsageError(f"records are elements of an XML file, and {path} is {kind}")
    if path != "-" and not Path(path).exists():
        raise UsageError(f"{path}: no such file")
    try:
        if kind == "jsonl":
            yield from _read_lines(path, batch)
        elif kind == "parquet":
            # The index of a Parquet file is at its end, so a pipe must be read to its end first.
            source = pq.ParquetFile(
                pa.BufferReader(sys.stdin.buffer.read()) if path == "-" else path
            )
            yield from _tables(source.iter_batches(batch), source.schema_arrow)
        elif kind == "csv":
            yield from _read_csv(path)
        elif kind == XML:
            yield from _read_xml(path, split)
        else:
            yield from _read_arrow(path)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise ParseError.of(
            "{path}: not {expected}: {found}",
            path=path,
            found=str(error),
            expected=f"a readable {kind} file",
            example=None,  # a file of any engine
        ) from None


def _read_lines(path: str, batch: int) -> Iterator[list[Any]]:
    with _open_bytes(path) as stream:
        number, rest = 0, b""
        while True:
            # Read only available data: line by line from a slow pipe, large pieces from a file.
            piece = stream.read1(1 << 22)
            lines = (rest + piece).split(b"\n")
            rest = lines.pop() if piece else b""
            rows: list[Any] = []
            for line in lines:
                number += 1
                if line.strip():
                    rows.append((number, _parsed(line, number)))
            for start in range(0, len(rows), batch):
                yield rows[start : start + batch]
            if not piece:
                return


def _read_csv(path: str) -> Iterator[pa.Table]:
    source = sys.stdin.buffer if path == "-" else path
    with pa_csv.open_csv(
        source,
        pa_csv.ReadOptions(block_size=_BATCH_BYTES),
        pa_csv.ParseOptions(newlines_in_values=True),  # documents contain them
    ) as reader:
        yield from _tables(reader, reader.schema)


def _tables(parts: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """A table of each part; without parts, an empty table with the columns."""
    is_empty, names = True, schema.names  # raises if a name is not UTF-8
    for part in parts:
        is_empty = False
        yield pa.Table.from_batches([part])
    if is_empty and names:
        yield schema.empty_table()


def _read_xml(path: str, split: Split | None) -> Iterator[pa.Table]:
    with _open_bytes(path) as stream:
        if split is None:
            yield _documents([stream.read()])
            return
        try:
            yield from map(_documents, split(stream))
        except ParseError as error:
            raise error.saying(f"{path}: {error}") from None


def _documents(documents: list[bytes]) -> pa.Table:
    return pa.table({"document": pa.array(documents, pa.binary())})


def _parsed(line: bytes, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        text = line.decode(errors="replace")
        at = error.pos if isinstance(error, json.JSONDecodeError) else 0
        fault = ParseError.of(
            "line {number} is not JSON: {reason}",
            number=number,
            reason=error,
            line=number,
            column=at + 1,
            found=text[at : at + 40].rstrip() or "the end",
            expected="JSON",
            example=None,  # a line of any engine
        )
        return Unread(text, fault)


@contextmanager
def _open_bytes(path: str) -> Iterator[Any]:
    if path == "-":
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as stream:
            yield stream


def _read_arrow(path: str) -> Iterator[pa.Table]:
    if path == "-":
        stream = pa.ipc.open_stream(sys.stdin.buffer)
        yield from _tables(stream, stream.schema)
        return
    with pa.memory_map(path) as source:
        try:
            reader = pa.ipc.open_file(source)
            parts = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pa.ArrowInvalid:  # the streaming form
            source.seek(0)
            reader = parts = pa.ipc.open_stream(source)
        yield from _tables(parts, reader.schema)


def open_to_write(path: str | Path) -> IO[bytes]:
    """Create a file, or truncate an existing one."""
    try:
        return open(path, "wb")
    except (OSError, ValueError) as error:  # a null byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path}: cannot be written: {reason}; expected a file in a folder that exists"
        ) from None


class Writer:
    """Writes Arrow tables to a file or to standard output, batch by batch.

    `schema` is for a file without rows; otherwise the first table decides.
    """

    def __init__(self, path: str, given: str | None, schema: pa.Schema) -> None:
        self._kind, self._path, self._schema = format_of(path, given), path, schema
        if self._kind == XML:
            raise UsageError(f"XML is only read; expected one of: {', '.join(FORMATS)}")
        self._writer: Any = None
        self._stream: Any = None

    def __enter__(self) -> Writer:
        self._stream = sys.stdout.buffer if self._path == "-" else open_to_write(self._path)
        return self

    def write_lines(self, lines: pa.Array) -> None:
        """Append rows that are JSON text already."""
        self._stream.write(b"".join(line + b"\n" for line in lines.to_pylist()))

    def write(self, table: pa.Table) -> None:
        """Append the rows of a table; all tables have the same columns."""
        if self._kind == "jsonl":
            names = table.column_names
            for part in table.to_batches():
                values = list(filter(None, map(_plain_values, part.columns)))
                if len(part.columns) == len(values) == 2:
                    for some in pair_lines(names, *values):
                        self._stream.write(some)
                    continue
                columns = [column.to_pylist() for column in part.columns]
                lines = (
                    json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
                    for row in zip(*columns, strict=True)
                )
                self._stream.write("".join(f"{line}\n" for line in lines).encode())
            self._stream.flush()
            return
        if self._writer is None:
            self._open(table.schema)
        try:
            self._writer.write_table(table.cast(self._schema))
        except (pa.ArrowInvalid, ValueError) as error:
            raise ParseError.of(
                "{path}: rows of another kind than the first: {found}",
                path=self._path,
                found=str(error),
                expected="rows of one kind",
                example=None,
            ) from None

    def _open(self, schema: pa.Schema) -> None:
        self._schema = schema
        if self._kind == "csv":
            nested = [field.name for field in schema if pa.types.is_nested(field.type)]
            if nested:
                raise UsageError(
                    f"column {nested[0]!r} has lists, for which CSV has no form; expected one of: "
                    "jsonl, parquet, arrow"
                )
            self._writer = pa_csv.CSVWriter(self._stream, schema)
        elif self._kind == "parquet":
            self._writer = pq.ParquetWriter(self._stream, schema)
        elif self._path == "-":
            self._writer = pa.ipc.new_stream(self._stream, schema)
        else:
            self._writer = pa.ipc.new_file(self._stream, schema)

    def __exit__(self, *failure: object) -> None:
        if self._writer is None and self._kind != "jsonl" and failure[0] is None:
            self._open(self._schema)
        if self._writer is not None:
            self._writer.close()
        self._stream.flush()
        if self._path != "-":
            self._stream.close()


def _plain_values(column: pa.Array) -> Values | None:
    """A column of integers or strings in the form that kernels write; None for others."""
    if column.null_count or not len(column):
        return None
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        return integers(column.cast(pa.int64()).to_numpy())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        return None
    used, numbers = np.unique(column.indices.to_numpy(), return_inverse=True)
    names = column.dictionary.take(pa.array(used)).to_pylist()
    return texts(numbers, [json.dumps(name, ensure_ascii=False).encode() for name in names])
