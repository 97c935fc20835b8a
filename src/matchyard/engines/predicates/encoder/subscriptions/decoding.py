"""Filters back as predicates of the language."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np

from matchyard.engines.predicates.encoder.layout import Filters, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions.operators import read_constraint
from matchyard.engines.predicates.encoder.subscriptions.vocabulary import read
from matchyard.engines.predicates.language.canonical import constraint_key
from matchyard.engines.predicates.language.model import Constraint, Filter, Predicate
from matchyard.engines.predicates.language.normal_form import filter_key, group_key

_CHUNK = 4096  # rows decoded at a time


def decode_rows(
    filters: Filters, start: int, stop: int, vocabulary: Vocabulary
) -> Iterator[Predicate]:
    """The predicates of some consecutive rows."""
    for first in range(start, stop, _CHUNK):
        rows = np.arange(first, min(first + _CHUNK, stop))
        yield from _decode(filters.take(rows), vocabulary)


def _decode(filters: Filters, vocabulary: Vocabulary) -> Iterator[Predicate]:
    pieces = read(filters, vocabulary)
    name, text = cache(vocabulary.names.name), cache(vocabulary.texts.name)
    row_start, filter_start, piece_start, groups, names, *columns = (
        array.tolist() for array in pieces
    )
    words = list(zip(*columns, strict=True))
    constraints = [
        Constraint(name(names[start]), read_constraint(words[start:end], text))
        for start, end in pairwise(piece_start)
    ]
    decoded = [
        _filter(constraints[start:end], groups[start:end]) for start, end in pairwise(filter_start)
    ]
    for start, end in pairwise(row_start):
        yield Predicate(tuple(sorted(decoded[start:end], key=filter_key)))


def _filter(constraints: list[Constraint], groups: list[int]) -> Filter:
    members: dict[int, list[Constraint]] = {}
    for constraint, group in zip(constraints, groups, strict=True):
        members.setdefault(group, []).append(constraint)
    holds, *fails = (
        tuple(sorted(members.get(group, ()), key=constraint_key)) for group in sorted({0, *members})
    )
    return Filter(holds, tuple(sorted(fails, key=group_key)))
