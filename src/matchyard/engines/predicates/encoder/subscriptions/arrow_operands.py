"""The operands of the constraints of a column: numbers, texts or bools."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.subscriptions.pieces import Form
from matchyard.engines.predicates.language.examples import PREDICATE
from matchyard.errors import ParseError

_CONSTRAINTS = "constraints, e.g. [{'name': 'temp', 'op': '>', 'value': 30}]"


def refused(message: str, found: str, **said: Any) -> ParseError:
    """The error of a column with this message, and what was expected instead."""
    whole = f"{message}; expected {{expected}}"
    return ParseError.of(whole, found=found, expected=_CONSTRAINTS, example=PREDICATE, **said)


class Operand(NamedTuple):
    """Operands: numbers, and other values by id, -1 for none."""

    forms: NDArray[np.uint8]  # of numbers; `Form.NONE` where there is none, `Form.END` for NaN
    words: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: pa.Array  # texts, or the two bools


def read_operand(fields: dict[str, pa.Array], name: str, n_constraints: int) -> Operand:
    """The operands in a field; the texts of `value` may have their own field."""
    values, texts = fields.get(name), fields.get("text") if name == "value" else None
    if texts is not None and not (is_text(texts.type) or pa.types.is_null(texts.type)):
        raise refused("'text' is of type {found}, not text", str(texts.type))
    forms, words = np.zeros(n_constraints, np.uint8), np.zeros(n_constraints, np.int64)
    ids, others = np.full(n_constraints, -1, np.int32), pa.array([], pa.large_string())
    if values is not None and is_text(values.type):
        if texts is not None:
            texts = pc.coalesce(texts.cast(pa.large_string()), values.cast(pa.large_string()))
        values, texts = None, values if texts is None else texts
    if values is not None and pa.types.is_boolean(values.type):
        ids = values.cast(pa.int32()).fill_null(-1).to_numpy()
        others = pa.array([False, True])
    elif values is not None and not pa.types.is_null(values.type):
        forms, words = _numbers(values, name)
    if texts is not None and not pa.types.is_null(texts.type):
        if len(others):
            raise refused("'value' is {found}", "bool, and there is 'text' beside it")
        others, ids = distinct(texts)
        forms[ids >= 0] = Form.NONE  # a text counts more than a number beside it
    return Operand(forms, words, ids, others)


def _numbers(values: pa.Array, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Forms and words of a column of numbers."""
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        message = "{name!r} is of type {found}; expected numbers, text or bool"
        raise refused(message, str(values.type), name=name)
    plain = (values.fill_null(0) if values.null_count else values).to_numpy()
    if pa.types.is_floating(values.type):
        words = plain.astype(np.float64, copy=False).view(
            np.int64
        )  # without a copy of large columns
        forms = np.full(len(words), Form.FLOAT, np.uint8)
        forms[np.isnan(plain)] = Form.END
    elif pa.types.is_unsigned_integer(values.type):
        words = plain.astype(np.uint64, copy=False).view(np.int64)
        forms = np.full(len(words), Form.INTEGER, np.uint8)
        forms[words < 0] = Form.UNSIGNED
    else:
        words = plain.astype(np.int64, copy=False)
        forms = np.full(len(words), Form.INTEGER, np.uint8)
    if values.null_count:
        forms[nulls(values)] = Form.NONE
    return forms, words


def is_text(kind: pa.DataType) -> bool:
    """True for Arrow types of text, dictionaries of text included."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_plain = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_plain or pa.types.is_string_view(kind))


def distinct(words: pa.Array) -> tuple[pa.Array, NDArray[np.int32]]:
    """Distinct texts, perhaps with some more, and the number of each in the column; -1 for null."""
    if not pa.types.is_dictionary(words.type):
        if pa.types.is_string_view(words.type):
            words = words.cast(pa.large_string())
        words = words.dictionary_encode()
    ids = words.indices.fill_null(-1) if words.null_count else words.indices
    return words.dictionary.cast(pa.large_string()), ids.to_numpy().astype(np.int32, copy=False)


def nulls(values: pa.Array) -> NDArray[np.bool_]:
    """True for each null."""
    if values.null_count == 0:
        return np.zeros(len(values), np.bool_)
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_)
