"""records: large XML files in, a row per element of one name out, for `match`.

files ─▶ tasks read them in pieces ─▶ (columns of the file, number, document)
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from matchyard.errors import UsageError
from matchyard.spark.checks import carried, column_of, type_of
from matchyard.spark.tasks import records as tasks

_ADDED = [T.StructField("number", T.LongType()), T.StructField("document", T.BinaryType())]


def records(
    files: DataFrame,
    record: str,
    column: str = "path",
    max_document_bytes: int = 1 << 30,
) -> DataFrame:
    """Split XML files into documents: one for every element called `record`.

    The column holds paths or addresses of files, or their content as binary. Files are read in
    pieces: a task holds only a few records at a time, however long the file. `.gz`, `.bz2`, `.zst`
    and `.lz4` are decompressed. The result has the other columns and the path, the `number` of the
    record in its file, and the `document` in UTF-8.

    >>> dumps = spark.read.format("binaryFile").load("dumps/*.xml.gz")  # doctest: +SKIP
    >>> articles = records(dumps.select("path"), record="article")  # doctest: +SKIP
    >>> match(articles, "dblp.index", event="document", id=["path", "number"])  # doctest: +SKIP

    `match` reports records that are not well-formed; a file that ends within a record ends the job.
    """
    if not record:
        raise UsageError('a record needs the name of an element, e.g. record="article"')
    kind = type_of(files, column, "files")
    if not isinstance(kind, T.StringType | T.BinaryType):
        raise UsageError(
            f"column {column!r} is {kind.simpleString()}; expected string, paths of XML files, or "
            "binary, their content"
        )
    is_content = isinstance(kind, T.BinaryType)
    kept = files.drop(column) if is_content else files
    fields = [T.StructField(field.name, carried(field)) for field in kept.schema]
    taken = {field.name for field in fields} & {field.name for field in _ADDED}
    if taken:
        raise UsageError(f"column {min(taken)!r} would come out twice: rename that of the files")
    source = files.select(*kept.columns, column_of(files, column, "files").alias("_source"))
    split = partial(tasks.split_files, record, max_document_bytes)
    return source.mapInArrow(split, T.StructType([*fields, *_ADDED]))
