"""Vocabularies from pieces, and pieces as codes in a vocabulary, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.events.pattern_index import build
from matchyard.engines.predicates.encoder.layout import Filters, Kind, Mode, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions.canonical_order import ordered
from matchyard.engines.predicates.encoder.subscriptions.coding import (
    IN_ORDER,
    NOT_DOUBLE,
    NOT_WHOLE,
    clashes,
    code_all,
    collect,
    first_missing,
    look,
    mark_slots,
    read_all,
)
from matchyard.engines.predicates.encoder.subscriptions.pieces import Pieces, renumber, used
from matchyard.errors import UsageError
from matchyard.kernels.csr import ragged
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.strings import Names, freeze, rank_names

_N_KINDS = len(Kind)
_NO_WORDS = np.empty(0, np.int64)
_NO_NUMBERS = np.empty(0, np.float64)
_UNCOUNTED = np.empty((0, 2), np.int64)


def encode(pieces: Pieces, names: Names, texts: Names) -> tuple[Filters, Vocabulary]:
    """Code pieces over a new vocabulary that has only their names and texts."""
    name_uses, text_uses = used(pieces, names.n_names, texts.n_names)
    names, new_names = _by_uses(names, name_uses)
    texts, new_texts = _in_order(texts, text_uses)
    pieces = renumber(pieces, new_names, new_texts)
    vocabulary = _build(pieces, names, texts)
    filters = code(pieces, vocabulary)
    if len(filters.slots) < len(pieces.names):  # count equal pieces once
        return encode(read(filters, vocabulary), names, texts)
    return filters, vocabulary


def _by_uses(names: Names, uses: NDArray[np.int64]) -> tuple[Names, NDArray[np.int32]]:
    """The used names, numbered by falling use; independent of the order of the pieces."""
    some = np.flatnonzero(uses)
    names, weights = _in_order(names, uses)
    uses_in_order = np.empty(len(some), np.int64)
    uses_in_order[weights[some]] = uses[some]
    names, rank = rank_names(names, uses_in_order)
    weights[some] = rank[weights[some]]
    return names, weights


def _in_order(texts: Names, uses: NDArray[np.int64]) -> tuple[Names, NDArray[np.int32]]:
    """The used texts, numbered in order of their bytes."""
    some = np.flatnonzero(uses)
    order = some[pc.array_sort_indices(texts.to_arrow().take(some)).to_numpy()]
    weights = np.zeros(len(uses), np.int64)  # the first has the highest, as for `rank_names`
    weights[order] = np.arange(len(order), 0, -1)
    ranked, rank = rank_names(texts, weights)
    return freeze(ranked._replace(uses=_UNCOUNTED)), rank


def inspect(vocabulary: Vocabulary, place: str, is_thorough: bool) -> None:
    """Refuse a damaged vocabulary: see `kernels.inspection`."""
    look = Inspection(vocabulary, place, is_thorough)
    n_names, n_texts = look.names("names"), look.names("texts")
    n_slots, n_domain = look.length("kind"), look.length("domain")
    look.offsets("slot_start", n_names, n_slots)
    look.values("kind", 0, _N_KINDS)
    look.values("mode", 0, len(Mode), n_slots)
    look.offsets("domain_start", n_slots, n_domain)
    look.shape("domain_rest", n_domain)
    for name in ("gram_slots", "gram_patterns"):
        look.length(name)
    if is_thorough:
        is_pattern = np.repeat(
            vocabulary.kind >= Kind.PATTERN.value, np.diff(vocabulary.domain_start)
        )
        texts = vocabulary.domain_rest[is_pattern] >> 2
        is_so = (texts >= 0) & (texts < n_texts)
        look.expect("domain_rest", is_so.all(), f"names more than {n_texts} texts")
        look.same(lambda: _with_grams(vocabulary))
    look.finish()


def slots_of(vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The slot of each name and kind, or -1."""
    slot_of = np.full((vocabulary.n_names, _N_KINDS), -1, np.int32)
    slot_of[names_of(vocabulary), vocabulary.kind] = np.arange(vocabulary.n_slots)
    return slot_of


def names_of(vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The name of each slot."""
    numbers = np.arange(vocabulary.n_names, dtype=np.int32)
    return np.repeat(numbers, np.diff(vocabulary.slot_start))


def _build(pieces: Pieces, names: Names, texts: Names) -> Vocabulary:
    pieces = freeze(pieces)
    marks = np.zeros((names.n_names, _N_KINDS), np.bool_)
    mark_slots(pieces, marks)
    kind = np.nonzero(marks)[1].astype(np.uint8)
    start = ragged(marks.sum(axis=1)).astype(np.int32)
    vocabulary = Vocabulary(
        names, texts, start, kind, np.zeros(len(kind), np.uint8),
        np.zeros(len(kind) + 1, np.int64), _NO_NUMBERS, _NO_WORDS, _NO_WORDS,
        np.empty(0, np.int32),
    )  # fmt: skip
    slot_of = slots_of(vocabulary)
    demands = np.zeros(len(kind), np.uint8)
    look(pieces, slot_of, demands)
    is_number, is_pattern = kind == Kind.NUMBER, kind >= Kind.PATTERN
    mode = vocabulary.mode
    mode[demands & IN_ORDER > 0] = 1
    mode[is_number & (demands & NOT_WHOLE > 0)] = Mode.FLOAT
    mode[is_number & (demands & (NOT_WHOLE | NOT_DOUBLE) == NOT_WHOLE | NOT_DOUBLE)] = Mode.RANKED
    is_double = is_number & (mode == Mode.FLOAT)
    excluded = _constants(pieces, slot_of, is_double, only_open=True)
    if len(excluded.slots):
        clashing = np.zeros(len(kind), np.bool_)
        clashes(pieces, slot_of, _with_domain(vocabulary, excluded), clashing)
        mode[clashing] = Mode.RANKED
        kept = ~clashing[excluded.slots]
        slots, numbers, rests = excluded
        excluded = _Constants(slots[kept], numbers[kept], rests[kept])
    is_listed = is_pattern | (is_number & (mode == Mode.RANKED))
    listed = _constants(pieces, slot_of, is_listed, only_open=False)
    pairs: Iterable[tuple[Any, Any]] = zip(excluded, listed, strict=True)
    domain = _Constants(*(np.concatenate(arrays) for arrays in pairs))
    return _with_grams(_with_domain(vocabulary, domain))


class _Constants(NamedTuple):
    slots: NDArray[np.int32]
    numbers: NDArray[np.float64]
    rests: NDArray[np.int64]


def _constants(
    pieces: Pieces, slot_of: NDArray[np.int32], wanted: NDArray[np.bool_], only_open: bool
) -> _Constants:
    """Slots, numbers and rests of the constants of some slots, in order, each once."""
    none = _Constants(np.empty(0, np.int32), _NO_NUMBERS, _NO_WORDS)
    if not wanted.any():
        return none
    n_found = collect(pieces, slot_of, wanted, only_open, *none)
    slots, numbers = np.empty(n_found, np.int32), np.empty(n_found, np.float64)
    rests = np.empty(n_found, np.int64)
    collect(pieces, slot_of, wanted, only_open, slots, numbers, rests)
    order = np.lexsort((rests, numbers, slots))
    slots, numbers, rests = slots[order], numbers[order], rests[order]
    is_new = np.ones(n_found, np.bool_)
    is_new[1:] = (np.diff(slots) != 0) | (numbers[1:] != numbers[:-1])
    if only_open:  # join the ends of equal constants
        firsts = np.flatnonzero(is_new)
        rests = np.bitwise_or.reduceat(rests, firsts) if n_found else rests
        return _Constants(slots[firsts], numbers[firsts], rests)
    is_new[1:] |= np.diff(rests) != 0
    return _Constants(slots[is_new], numbers[is_new], rests[is_new])


def _with_domain(vocabulary: Vocabulary, constants: _Constants) -> Vocabulary:
    slots, numbers, rests = constants
    order = np.argsort(slots, kind="stable")
    start = ragged(np.bincount(slots, minlength=vocabulary.n_slots))
    return vocabulary._replace(domain_start=start, domain=numbers[order], domain_rest=rests[order])


def _with_grams(vocabulary: Vocabulary) -> Vocabulary:
    gram_slots, gram_patterns = build(
        vocabulary.texts, vocabulary.kind, vocabulary.domain_start, vocabulary.domain_rest
    )
    return vocabulary._replace(gram_slots=gram_slots, gram_patterns=gram_patterns)


def code(pieces: Pieces, vocabulary: Vocabulary, is_checked: bool = False) -> Filters:
    """Pieces over the ids of a vocabulary as filters; `is_checked` refuses unknown constants."""
    slot_of, n_pieces = slots_of(vocabulary), len(pieces.names)
    vocabulary, given = freeze(vocabulary), freeze(pieces)
    if is_checked:
        _refuse_missing(pieces, first_missing(given, slot_of, vocabulary))
    slots = np.empty(n_pieces, np.int32)
    low, high = np.empty(n_pieces, np.int64), np.empty(n_pieces, np.int64)
    code_all(given, slot_of, vocabulary, slots, low, high)
    filters = Filters(
        pieces.row_start, pieces.filter_start, pieces.piece_start, pieces.groups, slots, low, high
    )
    return ordered(filters)


def _refuse_missing(pieces: Pieces, constraint: int) -> None:
    if constraint >= 0:
        at = int(np.searchsorted(pieces.filter_start, constraint, side="right")) - 1
        row = int(np.searchsorted(pieces.row_start, at, side="right")) - 1
        raise UsageError(
            f"row {row} has a constraint that is not in the vocabulary: it was not counted"
        )


def read(filters: Filters, vocabulary: Vocabulary) -> Pieces:
    """The inverse of `code`: pieces over the names and texts of the vocabulary."""
    n_pieces = len(filters.slots)
    pieces = Pieces(
        filters.row_start, filters.filter_start, filters.piece_start, filters.groups,
        np.empty(n_pieces, np.int32), np.empty(n_pieces, np.uint8), np.empty(n_pieces, np.uint8),
        np.empty(n_pieces, np.int64), np.empty(n_pieces, np.int64),
    )  # fmt: skip
    read_all(filters, names_of(vocabulary), vocabulary, pieces)
    return pieces
