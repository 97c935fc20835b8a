"""Subscriptions on their way through a distributed build: numbers in scratch files.

    every task     stage(…)        reads its rows once: a part with a vocabulary of its own
    the driver     merged(…)       one vocabulary, and one number for each string key
    every task     deal(…)         the rows of a part, over that vocabulary, by shard
    every task     compiled(…)     the table of one shard

The arrays of a part are in one file in the scratch folder of its task; what a task deals out is one file with a
part for each shard. Only descriptions travel, so a task that runs twice does no harm: the driver goes on with the
parts that it was told of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.errors import StorageError, UsageError
from matchyard.index.bad_events import refused_by
from matchyard.index.keys import integers, key_column
from matchyard.kernels import key_table
from matchyard.kernels.strings import Interner, Names, find_names
from matchyard.shards.plan import Plan, resolve
from matchyard.storage import file_below, versions

_PART_ROWS = 1 << 22  # of a part; a task with more rows writes several
_SAMPLED = 25  # one row in so many is in the sample of a part…
_LEAST_SAMPLE = 10_000  # …but at least so many are, if the part has them
_BLOCKS = 64  # of consecutive rows, in a sample


class Part(NamedTuple):
    """Arrays in a file, and what they are."""

    name: str  # below the folder of the new version
    n_rows: int
    string_keys: bool
    shard: int  # -1: rows of all shards, over a vocabulary of their own
    arrays: list[tuple[str, list[int], int]]  # type, shape and place in the file of each

    def to_json(self) -> str:
        """The description as text."""
        return json.dumps(self)

    @staticmethod
    def of_json(text: str) -> Part:
        """The description from text."""
        return Part(*json.loads(text))


class _Content(NamedTuple):
    batch: Any
    keys: NDArray[np.int64]  # numbers of `key_names`, if keys are strings
    key_names: Any  # Names
    counts: Any  # the names of the vocabulary and how often they occur, as bytes of an Arrow file
    vocabulary: Any  # of the part; dealt rows have none, and no sample
    sample: Any  # some rows of the batch, for the driver


def stage(folder: Any, rows: Iterable[tuple[Any, Any]], plan: Plan, below: str) -> Iterator[Part]:
    """Write columns of subscriptions and keys as parts, below a scratch folder."""
    settings = resolve(plan)
    encoder = settings.engine.encoder
    staging, interner = encoder.Staging(), Interner()
    is_string = False
    n_parts = 0

    def written() -> Part:
        batch, vocabulary, keys = staging.take()
        names = interner.names()
        counts = pa.BufferOutputStream()
        table = encoder.counts(batch, vocabulary)
        with pa.ipc.new_file(counts, table.schema) as file:
            file.write_table(table)
        n_sampled = max(_LEAST_SAMPLE, len(keys) // _SAMPLED)
        content = _Content(
            batch,
            keys,
            names,
            np.frombuffer(counts.getvalue(), np.uint8),
            vocabulary,
            batch.take(_spread(len(keys), n_sampled)),
        )
        [part] = _write(folder, f"{below}part{n_parts}", [(-1, content)], is_string)
        return part

    for subscriptions, keys in rows:
        column = _accepted(subscriptions, settings)
        names = key_column(keys)
        if len(names) != column.n_rows:
            raise UsageError(f"{column.n_rows} subscriptions, but {len(names)} keys")
        if not len(names):
            continue  # the type of no keys says nothing
        is_string = pa.types.is_large_string(names.type)
        numbers = interner.intern_arrow(names) if is_string else integers(names)
        staging.add(column, np.asarray(numbers, np.int64))
        if staging.n_rows >= _PART_ROWS:
            yield written()
            staging, interner, n_parts = encoder.Staging(), Interner(), n_parts + 1
    if staging.n_rows:
        yield written()


def check(subscriptions: Any, plan: Plan) -> None:
    """Raise the error that `stage` raises for these subscriptions, if it raises one."""
    settings = resolve(plan)
    column = _accepted(subscriptions, settings)
    settings.engine.encoder.Staging().add(column, np.zeros(column.n_rows, np.int64))


def refused(subscriptions: Any, plan: Plan) -> dict[int, str]:
    """The rows that `stage` refuses, with the reason of each."""
    errors = refused_by(lambda some: check(some, plan), subscriptions)
    return {row: str(error).removeprefix("row 0").lstrip(": ") for row, error in errors.items()}


def _accepted(subscriptions: Any, settings: Configured) -> Any:
    """Subscriptions as a column that the algorithm can hold."""
    column = settings.engine.encoder.subscription_column(subscriptions, settings.input_options)
    settings.accept(column)
    return column


def merged(
    folder: Any,
    parts: Sequence[Part],
    plan: Plan,
    known: Names | None = None,
    string_keys: bool = False,
) -> tuple[Any, Names | None]:
    """The vocabulary of all parts, and the names of their string keys; known names keep their numbers. Without
    parts, `string_keys` says whether there are such names."""
    encoder = resolve(plan).engine.encoder
    has_names = string_keys or known is not None or any(part.string_keys for part in parts)
    names = Interner(known)

    def counts() -> Iterator[pa.Table]:
        for part in parts:
            key_names, table = _read_names(folder, part, plan)
            if has_names:
                names.intern_arrow(key_names.to_arrow())
            yield pa.ipc.open_file(table).read_all()

    vocabulary = encoder.merge_counts(counts())
    return vocabulary, names.names() if has_names else None


def sampled(folder: Any, parts: Sequence[Part], vocabulary: Any, plan: Plan) -> Any:
    """The number of subscriptions by rarest name, as the samples of all parts let expect, in the order of `cut`."""
    encoder = resolve(plan).engine.encoder
    n_filed = np.zeros(int(encoder.n_ids(vocabulary)) + 1, np.int64)
    for part in parts:
        own, sample = _read_sample(folder, part, plan)
        rarest = encoder.rarest(encoder.recode(sample, own, vocabulary))
        counts = np.bincount(rarest + 1, minlength=len(n_filed))
        n_filed += np.rint(counts * (part.n_rows / max(1, len(rarest)))).astype(np.int64)
    return n_filed


def _spread(n_rows: int, n_wanted: int) -> NDArray[np.int64]:
    """About so many rows, in blocks that are spread over all."""
    if n_wanted >= n_rows:
        return np.arange(n_rows)
    size = -(-n_wanted // _BLOCKS)
    firsts = np.arange(_BLOCKS) * (n_rows - size) // max(1, _BLOCKS - 1)
    return np.unique((firsts[:, None] + np.arange(size)).ravel())


def deal(
    folder: Any,
    part: Part,
    vocabulary: Any,
    key_names: Names | None,
    routes: NDArray[np.int32],
    plan: Plan,
    below: str,
) -> tuple[list[Part], NDArray[np.bool_]]:
    """The rows of a part over the vocabulary of all, a part for each shard; and which rarest names they
    have."""
    encoder = resolve(plan).engine.encoder
    batch, keys = _over_all(_read(folder, part, plan), part, vocabulary, key_names, encoder)
    rarest = 1 + encoder.rarest(batch)
    is_filed = np.zeros(len(routes), np.bool_)
    is_filed[rarest] = True
    shards = routes[rarest]
    if len(shards) and shards.min() < 0:
        raise UsageError("a subscription is filed under a name without a shard: see `cut`")
    order = np.argsort(shards, kind="stable")
    ends = np.searchsorted(shards[order], np.arange(int(routes.max(initial=0)) + 2))
    none = Interner().names()

    def contents() -> Iterator[tuple[int, _Content]]:
        for shard in range(len(ends) - 1):
            rows = order[ends[shard] : ends[shard + 1]]
            if len(rows):
                yield (
                    shard,
                    _Content(batch.take(rows), keys[rows], none, np.empty(0, np.uint8), (), ()),
                )

    return _write(folder, f"{below}dealt", contents(), part.string_keys), is_filed


def compiled(
    folder: Any, parts: Sequence[Part], vocabulary: Any, key_names: Names | None, plan: Plan
) -> Any:
    """The table of some parts, of one shard or of all."""
    engine, _, algorithm, _, options, *_ = resolve(plan)
    encoder = engine.encoder
    batches, keys = [], [np.empty(0, np.int64)]
    for part in parts:
        content = _read(folder, part, plan)
        batch, numbers = content.batch, content.keys
        if part.shard < 0:
            batch, numbers = _over_all(content, part, vocabulary, key_names, encoder)
        batches.append(batch)
        keys.append(numbers)
    batch = encoder.concatenate(batches) if batches else encoder.Staging().take()[0]
    del batches
    numbers = key_table.narrowed(np.concatenate(keys))
    return algorithm.compile(batch, numbers, vocabulary, options)


def _over_all(
    content: _Content, part: Part, vocabulary: Any, key_names: Names | None, encoder: Any
) -> tuple[Any, NDArray[np.int64]]:
    """The rows of a part over the vocabulary and the key numbers of all parts."""
    batch = encoder.recode(content.batch, content.vocabulary, vocabulary)
    if not part.string_keys:
        return batch, content.keys
    assert key_names is not None  # `merged` has them
    return batch, find_names(key_names, content.key_names.to_arrow())[content.keys]


# -------------------------------------------------------------------- files


def _leaves(arrays: Any) -> Iterator[NDArray[Any]]:
    if isinstance(arrays, tuple):
        for one in arrays:
            yield from _leaves(one)
    else:
        yield np.ascontiguousarray(arrays)


def _n_leaves(kind: Any) -> int:
    """The number of arrays of a NamedTuple of arrays or of such tuples."""
    hints = get_type_hints(kind)
    inner = (hints[name] for name in kind._fields)
    return sum(
        _n_leaves(hint) if isinstance(hint, type) and issubclass(hint, tuple) else 1
        for hint in inner
    )


def _grown(kind: Any, leaves: Iterator[NDArray[Any]]) -> Any:
    """The inverse of `_leaves`, for a NamedTuple of arrays or of such tuples."""
    hints = get_type_hints(kind)
    return kind(
        *(
            _grown(hint, leaves)
            if isinstance(hint, type) and issubclass(hint, tuple)
            else next(leaves)
            for hint in (hints[name] for name in kind._fields)
        )
    )


def _write(
    folder: Any, name: str, contents: Iterable[tuple[int, _Content]], string_keys: bool
) -> list[Part]:
    """Write the rows of some shards into one file: a part for each."""
    parts, at = [], 0
    try:
        with versions.writable(folder) as local, file_below(local, name).open("wb") as file:
            for shard, content in contents:
                arrays = []
                for leaf in _leaves(content):
                    arrays.append((leaf.dtype.str, list(leaf.shape), at))
                    file.write(leaf.reshape(-1).view(np.uint8).data)
                    at += leaf.nbytes
                    file.write(b"\0" * (-at % 64))
                    at += -at % 64
                file.write(b"\0" * 64)  # no part without bytes: it could not be mapped
                at += 64
                parts.append(Part(name, len(content.keys), string_keys, shard, arrays))
    except OSError as error:
        raise _out_of_reach(folder, error) from None
    return parts


def _out_of_reach(folder: Any, error: OSError) -> StorageError:
    """The error of a worker that cannot write or read scratch files."""
    if isinstance(error, StorageError):
        return error
    return StorageError(
        f"a worker cannot use {folder}: {error}. Every machine has to reach the index under this path, and to "
        "be allowed to write there"
    )


def _read(folder: Any, part: Part, plan: Plan) -> _Content:
    """All but the sample."""
    encoder = resolve(plan).engine.encoder
    kind = _batch_type(encoder)
    has_own = part.shard < 0
    leaves = _read_arrays(folder, part, 0, len(part.arrays) - has_own * _n_leaves(kind))
    batch, keys, names, counts = (
        _grown(kind, leaves),
        next(leaves),
        _grown(Names, leaves),
        next(leaves),
    )
    vocabulary = _grown(encoder.Vocabulary, leaves) if has_own else ()
    return _Content(batch, keys, names, counts, vocabulary, ())


def _read_names(folder: Any, part: Part, plan: Plan) -> tuple[Names, NDArray[np.uint8]]:
    """The key names and the counts of a part."""
    first = _n_leaves(_batch_type(resolve(plan).engine.encoder)) + 1
    leaves = _read_arrays(folder, part, first, first + len(Names._fields) + 1)
    return _grown(Names, leaves), next(leaves)


def _read_sample(folder: Any, part: Part, plan: Plan) -> tuple[Any, Any]:
    """The vocabulary and the sample of a part, which are its last arrays."""
    encoder = resolve(plan).engine.encoder
    kind = _batch_type(encoder)
    n_last = _n_leaves(encoder.Vocabulary) + _n_leaves(kind)
    leaves = _read_arrays(folder, part, len(part.arrays) - n_last, len(part.arrays))
    return _grown(encoder.Vocabulary, leaves), _grown(kind, leaves)


def _read_arrays(folder: Any, part: Part, first: int, after: int) -> Iterator[NDArray[Any]]:
    arrays = part.arrays[first:after]
    start = arrays[0][2]
    kind, shape, last = arrays[-1]
    n_bytes = last + int(np.prod(shape)) * np.dtype(kind).itemsize - start
    try:
        data = versions.scratch_bytes(folder, part.name, start, max(1, n_bytes))
    except OSError as error:
        raise _out_of_reach(folder, error) from None
    return iter(
        [
            np.frombuffer(data, kind, int(np.prod(shape)), at - start).reshape(shape)
            for kind, shape, at in arrays
        ]
    )


def _batch_type(encoder: Any) -> Any:
    return type(encoder.Staging().take()[0])
