"""The tasks of `records`: functions over Arrow batches, for `DataFrame.mapInArrow`.

Spark pickles them by name (the package is installed on the workers), with plain values.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import matchyard as my
from matchyard.errors import ParseError, UsageError
from matchyard.spark.tasks.notes import noted

Batches = Iterator[pa.RecordBatch]
_HANDED_ON = 1 << 22  # bytes of documents in one batch; the last document may exceed it


def split_files(record: str, max_document_bytes: int, batches: Batches) -> Batches:
    """The records of files; the last column has their paths or their content."""
    for batch in batches:
        for row in range(len(batch)):
            *kept, source = (column.slice(row, 1) for column in batch.columns)
            first = 0
            for documents in _split(source[0].as_py(), kept, record, max_document_bytes):
                yield _rows(kept, batch.schema.names[:-1], documents, first)
                first += len(documents)


def _split(
    source: str | bytes | None, kept: list[pa.Array], record: str, max_document_bytes: int
) -> Iterator[list[bytes]]:
    if source is None:
        raise UsageError("a path is null; expected the path of an XML file")
    reader = my.TwigIndex(options={"max_document_bytes": max_document_bytes})
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        yield from reader.records(file, record, _HANDED_ON)
    except ParseError as error:
        name = ", ".join(str(column[0].as_py()) for column in kept) or "a file"
        raise noted(error.saying(f"{name}: {error}")) from None


def _rows(
    kept: list[pa.Array], names: list[str], documents: list[bytes], first: int
) -> pa.RecordBatch:
    n_rows = len(documents)
    same = pa.array(np.zeros(n_rows, np.int64))
    numbers: Any = pa.array(np.arange(first, first + n_rows))
    columns = [*(column.take(same) for column in kept), numbers, pa.array(documents, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, [*names, "number", "document"])
