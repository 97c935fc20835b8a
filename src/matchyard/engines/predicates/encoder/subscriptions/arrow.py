"""Subscriptions in bulk: an Arrow column with a list of constraints per row.

A constraint is a struct of `name`, `op` and what the operator compares with: `value`, and `high`
for `between`; `text` where some values are numbers and others are not. A list of lists of them is a
disjunction. Kernels write all numbers at once; Python writes each distinct other value once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import Kind
from matchyard.engines.predicates.encoder.subscriptions.arrow_operands import (
    Operand,
    distinct,
    is_text,
    nulls,
    read_operand,
    refused,
)
from matchyard.engines.predicates.encoder.subscriptions.coding import pair_of
from matchyard.engines.predicates.encoder.subscriptions.operators import write_constraint
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, OPEN, Form, Pieces
from matchyard.engines.predicates.language.canonical import alternatives, check_operator, make_test
from matchyard.engines.predicates.language.examples import PREDICATE
from matchyard.errors import ParseError
from matchyard.kernels.csr import ragged

_FIELDS = ("name", "op", "value", "high", "text")
_COMPARISONS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5, "between": 6}
_EQUAL, _UNEQUAL, _LESS, _AT_MOST, _MORE, _AT_LEAST, _BETWEEN = range(7)
_NONE, _TEXT = int(Form.NONE), int(Form.TEXT)
_NUMBER, _TEXT_KIND = int(Kind.NUMBER), int(Kind.TEXT)


def is_list(kind: pa.DataType) -> bool:
    """True if the column has a list per row."""
    is_plain = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return is_plain or pa.types.is_fixed_size_list(kind)


def from_lists(values: pa.Array) -> tuple[Pieces, pa.Array, pa.Array]:
    """The pieces of a column, with the names and texts by id."""
    row_start, inner = _unpack(values)
    filter_start = row_start
    if is_list(inner.type):
        filter_start, inner = _unpack(inner)
    else:
        row_start = np.arange(len(filter_start))
    if pa.types.is_null(inner.type) and len(inner) == 0:
        inner = pa.array([], pa.struct([("name", pa.string()), ("op", pa.string())]))
    if not pa.types.is_struct(inner.type):
        raise refused("not a column of predicates: its lists are of {found}", str(inner.type))
    rows = _Rows(row_start, filter_start)
    rows.refuse(nulls(inner), "null instead of a constraint")
    members = map(_plain, inner.flatten())
    fields = dict(zip((field.name for field in inner.type), members, strict=True))
    for name in fields:
        if name not in _FIELDS:
            raise ParseError.of(
                "constraints have no {found}; expected {expected}",
                found=repr(name),
                expected=", ".join(_FIELDS),
                example=PREDICATE,
            )
    names, name_ids = distinct(_required(fields, "name", rows))
    built, texts = _pieces(fields, rows)
    if len(built.kinds) != len(inner):
        name_ids = np.repeat(name_ids, np.diff(built.piece_start))
    pieces = Pieces(
        row_start, filter_start, built.piece_start, np.zeros(len(inner), np.int16), name_ids,
        built.kinds, built.forms, built.low, built.high,
    )  # fmt: skip
    return pieces, names, texts


class _Rows:
    """The row of a constraint, for messages."""

    def __init__(self, row_start: NDArray[np.int64], filter_start: NDArray[np.int64]) -> None:
        self._row_start, self._filter_start = row_start, filter_start

    def refuse(self, wrong: NDArray[np.bool_], what: str) -> None:
        """Raise an error for the first constraint that is wrong, if any."""
        if wrong.any():
            self.fail(int(wrong.argmax()), refused("{found}", what))

    def refuse_empty(self, constraint: int) -> None:
        """Raise an error for an empty interval; -1 means that there is none."""
        if constraint >= 0:
            self.fail(constraint, refused("{found}", "no value lies between the ends of 'between'"))

    def check_operator(self, constraint: int, op: str) -> None:
        """Raise an error if `op` is not an operator."""
        try:
            check_operator(op)
        except ParseError as error:
            self.fail(constraint, error)

    def fail(self, constraint: int, error: ParseError) -> NoReturn:
        """Raise the error of a constraint with its row."""
        at = int(np.searchsorted(self._filter_start, constraint, side="right")) - 1
        row = int(np.searchsorted(self._row_start, at, side="right")) - 1
        raise error.saying(f"row {row}: {error}")


def _unpack(values: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Offsets and members of a list column."""
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py()
        raise refused("row {row} is {found}", "null", row=row)
    if pa.types.is_fixed_size_list(values.type):
        offsets = (values.offset + np.arange(len(values) + 1)) * values.type.list_size
    else:
        offsets = values.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], values.values.slice(offsets[0], offsets[-1] - offsets[0])


def _plain(values: pa.Array) -> pa.Array:
    """Decode dictionaries, except of texts without null: indices would not show a null."""
    if not pa.types.is_dictionary(values.type):
        return values
    is_kept = is_text(values.type) and values.dictionary.null_count == 0
    return values if is_kept else values.dictionary_decode()


def _required(fields: dict[str, pa.Array], name: str, rows: _Rows) -> pa.Array:
    if name not in fields:
        raise refused("{found}", f"constraints without {name!r}")
    texts = fields[name]
    if not is_text(texts.type):
        raise refused("{name!r} is of type {found}, not text", str(texts.type), name=name)
    rows.refuse(nulls(texts), f"a constraint whose {name!r} is null")
    return texts


class _Built(NamedTuple):
    piece_start: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    forms: NDArray[np.uint8]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def _pieces(fields: dict[str, pa.Array], rows: _Rows) -> tuple[_Built, pa.Array]:
    ops, op_ids = distinct(_required(fields, "op", rows))
    op_names = ops.to_pylist()
    n_constraints = len(op_ids)
    value = read_operand(fields, "value", n_constraints)
    high = read_operand(fields, "high", n_constraints)
    comparison = np.array([_COMPARISONS.get(op, -1) for op in op_names], np.int8)[op_ids]
    is_number = value.forms != Form.NONE
    _refuse_values(op_names, op_ids, comparison, value, high, rows)
    is_simple = is_number & (comparison >= 0)
    if pa.types.is_large_string(value.values.type):
        is_simple |= (value.ids >= 0) & (comparison == _EQUAL)
    if is_simple.all() and not (comparison == _UNEQUAL).any() and is_number.all():
        return _single(comparison, value, high, rows), pa.array([], pa.large_string())
    template, templates = _templates(op_names, op_ids, value, high, ~is_simple, rows)
    piece_start = ragged(_counts(comparison, template, templates.start))
    n_pieces = int(piece_start[-1])
    built = _Built(
        piece_start, np.empty(n_pieces, np.uint8), np.empty(n_pieces, np.uint8),
        np.empty(n_pieces, np.int64), np.empty(n_pieces, np.int64),
    )  # fmt: skip
    numbers = value.forms, value.words, value.ids, high.forms, high.words
    rows.refuse_empty(
        _fill(comparison, template, *numbers, templates.start, templates.words, built)
    )
    return built, templates.texts


def _single(comparison: NDArray[np.int8], value: Operand, high: Operand, rows: _Rows) -> _Built:
    """The pieces of numbers, one each, over the words of the column without a copy."""
    forms = np.empty(len(comparison), np.uint8)
    numbers = value.forms, value.words, high.forms, high.words
    rows.refuse_empty(_forms_of(comparison, *numbers, forms))
    kinds = np.full(len(comparison), Kind.NUMBER, np.uint8)
    is_between = comparison == _BETWEEN
    ends = value.words
    if is_between.all():
        ends = high.words
    elif is_between.any():
        ends = np.where(is_between, high.words, value.words)
    return _Built(np.arange(len(comparison) + 1), kinds, forms, value.words, ends)


def _refuse_values(
    op_names: list[str],
    op_ids: NDArray[np.int32],
    comparison: NDArray[np.int8],
    value: Operand,
    high: Operand,
    rows: _Rows,
) -> None:
    is_number = value.forms != Form.NONE
    needs_none = np.array([op == "exists" for op in op_names], np.bool_)[op_ids]
    rows.refuse(~is_number & (value.ids < 0) & ~needs_none, "a constraint without a value")
    rows.refuse((value.forms == Form.END) & ~needs_none, "nan compares with nothing")
    wrong = is_number & (comparison < 0) & ~needs_none
    if wrong.any():
        constraint_at = int(wrong.argmax())
        op = op_names[op_ids[constraint_at]]
        rows.check_operator(constraint_at, op)
        message = "{op!r} takes text in a column, not {found}"
        rows.fail(constraint_at, refused(message, "a number", op=op))
    is_between = comparison == _BETWEEN
    if is_between.any():
        rows.refuse(
            is_between & is_number & ((high.forms == Form.NONE) | (high.forms == Form.END)),
            "'between' without a number as 'high'",
        )
        rows.refuse(is_between & ~is_number & (high.ids < 0), "'between' without a text as 'high'")


class _Templates(NamedTuple):
    """The pieces of distinct tests that are not simple, and the texts of all tests."""

    start: NDArray[np.int64]
    words: NDArray[np.int64]  # [n, 4] kind, forms, low and high
    texts: pa.Array


def _templates(
    op_names: list[str],
    op_ids: NDArray[np.int32],
    value: Operand,
    high: Operand,
    wanted: NDArray[np.bool_],
    rows: _Rows,
) -> tuple[NDArray[np.int64], _Templates]:
    """Per constraint its template, -1 for none; and the templates."""
    template = np.full(len(wanted), -1, np.int64)
    texts = (
        value.values
        if pa.types.is_large_string(value.values.type)
        else pa.array([], pa.large_string())
    )
    counts: list[int] = []
    words: list[int] = []
    more: dict[str, int] = {}

    def text_id(text: str) -> int:
        return more.setdefault(text, len(texts) + len(more))

    positions = np.flatnonzero(wanted)
    if len(positions):
        n_values, n_ends = len(value.values) + 1, len(high.values) + 1
        keys = (op_ids[positions].astype(np.int64) * n_values + value.ids[positions] + 1) * n_ends
        keys += high.ids[positions] + 1
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        template[positions] = inverse.reshape(-1)
        for constraint_at in positions[first].tolist():
            op = op_names[op_ids[constraint_at]]
            try:
                test = make_test(op, _compared(op, constraint_at, value, high))
            except ParseError as error:
                rows.fail(constraint_at, error)
            pieces = write_constraint(alternatives("", [test])[0].tests, text_id)
            counts.append(len(pieces))
            words.extend(word for piece in pieces for word in piece)
    built = np.array(words, np.int64).reshape(-1, 4)
    if more:
        texts = pa.concat_arrays([texts, pa.array(list(more), pa.large_string())])
    return template, _Templates(np.cumsum([0, *counts]), built, texts)


def _compared(op: str, constraint_at: int, value: Operand, high: Operand) -> Any:
    if op == "exists":
        return None
    low = value.values[int(value.ids[constraint_at])].as_py()
    if op == "between":
        return low, False, high.values[int(high.ids[constraint_at])].as_py(), False
    return low


@njit(nogil=True, cache=True)
def _forms_of(comparison, forms, words, end_forms, end_words, result):
    """Write the forms of both ends; returns the first constraint with an empty interval, or -1."""
    for i in range(len(comparison)):
        low = high = np.int64(forms[i])
        op = comparison[i]
        if op == _BETWEEN:
            high = np.int64(end_forms[i])
            if pair_of(low, words[i]) > pair_of(high, end_words[i]):
                return i
        elif op in (_LESS, _AT_MOST):
            low, high = _NONE, high | (OPEN if op == _LESS else 0)
        elif op != _EQUAL:
            low, high = low | (OPEN if op == _MORE else 0), _NONE
        result[i] = low | high << HIGH
    return -1


@njit(nogil=True, cache=True)
def _counts(comparison, template, start):
    counts = np.ones(len(comparison), np.int64)
    for i in range(len(counts)):
        if template[i] >= 0:
            counts[i] = start[template[i] + 1] - start[template[i]]
        elif comparison[i] == _UNEQUAL:
            counts[i] = 2
    return counts


@njit(nogil=True, cache=True)
def _fill(comparison, template, forms, words, ids, end_forms, end_words, start, templates, built):
    """Write the pieces; returns the first constraint with an empty interval, or -1."""
    for i in range(len(comparison)):
        p = built.piece_start[i]
        if template[i] >= 0:
            for j in range(start[template[i]], start[template[i] + 1]):
                built.kinds[p], built.forms[p] = templates[j, 0], templates[j, 1]
                built.low[p], built.high[p] = templates[j, 2], templates[j, 3]
                p += 1
            continue
        form, word, op = np.int64(forms[i]), words[i], comparison[i]
        built.kinds[p] = _NUMBER
        if form == _NONE:
            built.kinds[p], form, word = _TEXT_KIND, _TEXT, np.int64(ids[i])
        low = high = _NONE
        built.low[p] = built.high[p] = word
        if op == _EQUAL:
            low = high = form
        elif op in (_LESS, _AT_MOST):
            high, built.low[p] = form | (OPEN if op == _LESS else 0), 0
        elif op in (_MORE, _AT_LEAST):
            low, built.high[p] = form | (OPEN if op == _MORE else 0), 0
        elif op == _BETWEEN:
            low, high, built.high[p] = form, np.int64(end_forms[i]), end_words[i]
            if pair_of(low, word) > pair_of(high, end_words[i]):
                return i
        else:
            high, built.low[p] = form | OPEN, 0
            built.kinds[p + 1], built.forms[p + 1] = _NUMBER, form | OPEN
            built.low[p + 1], built.high[p + 1] = word, 0
        built.forms[p] = low | high << HIGH
    return -1
